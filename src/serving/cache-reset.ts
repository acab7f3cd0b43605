import { setTimeout as sleep } from "node:timers/promises";
import type { ResetAnswer, ResetOptions, ResetRefusal } from "../connector/reset-answer.ts";
import type { FrontEnd } from "./front-end.ts";

export interface CacheResetPorts {
  readonly frontEnd: Pick<
    FrontEnd,
    "hold" | "resume" | "runningRequests" | "liveRequests" | "dropLocalCache"
  >;
  readonly resetPool: (options: ResetOptions) => Promise<ResetAnswer>;
  readonly nowMs: () => number;
  /** How long running requests, and then saves in flight, are waited for: save_timeout_ms. */
  readonly timeoutMs: number;
}

export interface CacheResetRequest {
  /** Waits for running requests to end, where vLLM preempts them. Without it they make the reset fail. */
  readonly resetRunningRequests: boolean;
  /** The pool too, see `resetPool`. */
  readonly resetExternal: boolean;
  readonly force: boolean;
}

/** `code`: the pool's, see ResetAnswer, or BUSY for what holds local blocks. `reason`: why not, for a person. */
export type CacheResetAnswer =
  | { readonly success: true; readonly localBlocks: number; readonly poolKeys: number }
  | { readonly success: false; readonly code: ResetRefusal; readonly reason: string };

const POLL_MS = 5;

/**
 * vLLM's reset_prefix_cache: drops the local prefix cache and, asked so, this deployment's part of the pool. New requests wait in
 * line meanwhile. It fails while blocks are held; the caller may try again.
 */
export class CacheReset {
  readonly #ports: CacheResetPorts;
  #busy = false;

  constructor(ports: CacheResetPorts) {
    this.#ports = ports;
  }

  /** Rejects with what `FrontEnd.dropLocalCache` throws. */
  async reset(request: CacheResetRequest): Promise<CacheResetAnswer> {
    if (this.#busy) return failed("another reset is under way");
    const { frontEnd } = this.#ports;
    this.#busy = true;
    frontEnd.hold();
    try {
      return await this.#reset(request);
    } finally {
      this.#busy = false;
      frontEnd.resume();
    }
  }

  async #reset(request: CacheResetRequest): Promise<CacheResetAnswer> {
    const { frontEnd, resetPool } = this.#ports;
    const running = frontEnd.runningRequests;
    if (running > 0 && !request.resetRunningRequests)
      return failed(`${running} requests are running`);
    if (!(await this.#drained()))
      return failed(`${frontEnd.liveRequests} requests, or their saves, have not ended in time`);
    const localBlocks = await frontEnd.dropLocalCache();
    if (!request.resetExternal) return { success: true, localBlocks, poolKeys: 0 };
    const answer = await resetPool({ force: request.force });
    return answer.acknowledged
      ? { success: true, localBlocks, poolKeys: answer.removedKeys }
      : failed(answer.problem, answer.reason);
  }

  /** A request that has ended holds its slot until its saves are over. */
  async #drained(): Promise<boolean> {
    const { frontEnd, nowMs, timeoutMs } = this.#ports;
    const deadlineMs = nowMs() + timeoutMs;
    while (frontEnd.liveRequests > 0) {
      if (nowMs() >= deadlineMs) return false;
      await sleep(POLL_MS);
    }
    return true;
  }
}

function failed(reason: string, code: ResetRefusal = "BUSY"): CacheResetAnswer {
  return { success: false, code, reason };
}
