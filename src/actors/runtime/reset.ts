import type { ConnectorConfig } from "../../config/connector-config.ts";
import type { KvCacheConfig } from "../../config/kv-cache-config.ts";
import { refuseReset, type ResetAnswer, type ResetOptions } from "../../connector/reset-answer.ts";
import type { KvEventSource } from "../../events/event-source.ts";
import { modelNameInKeys } from "../../keys/pool-keys.ts";
import { EngineCode } from "../../store/engine.ts";
import { EngineCalls, type EngineCallPorts } from "../../store/engine-calls.ts";
import type { ThreadEnds } from "../hosts/thread-ends.ts";
import { resetPool } from "../pool-reset/pool-reset.ts";
import type { Log } from "../step.ts";
import type { IdentityCheck } from "./identity-check.ts";

/** The pool is empty by then: an identity that takes longer is published by the next check. */
const PUBLISH_TIMEOUT_MS = 5_000;

export interface PoolResetsParts {
  readonly native: EngineCallPorts["native"];
  readonly engineId: number;
  readonly ends: Pick<ThreadEnds, "tables" | "nowMs">;
  readonly membership: Pick<IdentityCheck, "pause" | "resume" | "status" | "checkAnew">;
  readonly kvEvents: Pick<KvEventSource, "cleared"> | null;
  readonly connector: Pick<ConnectorConfig, "cachePrefix" | "saveTimeoutMs">;
  readonly kvCache: Pick<KvCacheConfig, "modelName">;
  readonly log: Log;
}

/**
 * Resets of a runtime's pool, whoever asks for them, one at a time, on the runtime's own thread. While one is under way nothing is
 * looked up or saved; afterwards the identity is published anew and KV events say that all blocks are gone.
 */
export class PoolResets {
  readonly #parts: PoolResetsParts;
  readonly #calls: EngineCalls;
  /** What runs when its time comes, or at `end`. */
  readonly #waiting = new Set<() => void>();
  #underWay = false;
  #ended = false;

  constructor(parts: PoolResetsParts) {
    this.#parts = parts;
    this.#calls = new EngineCalls({
      engineId: parts.engineId,
      // An engine that is closed takes no call.
      native: {
        engineCall: (engineId, request, done) =>
          this.#ended ? done(CLOSED) : parts.native.engineCall(engineId, request, done),
      },
      after: (delayMs, action) => this.#after(delayMs, action),
    });
  }

  /** Never rejects. `timeoutMs`: of the wait for transfers and of the removal together. */
  async reset(
    { force = false }: ResetOptions,
    timeoutMs: number = this.#parts.connector.saveTimeoutMs,
  ): Promise<ResetAnswer> {
    if (this.#underWay) return refuseReset("BUSY", "another reset is under way");
    if (!force && this.#parts.membership.status().membership === "closed")
      return refuseReset(
        "IDENTITY_MISMATCH",
        "the pool is closed for this member: what lies under its keys belongs to others. Only a forced reset removes it",
      );
    const { membership } = this.#parts;
    this.#underWay = true;
    // Before the first look for saves in flight: the scheduler side writes its saves down first and looks for the pause then.
    membership.pause();
    try {
      return await this.#reset(force, timeoutMs);
    } finally {
      membership.resume();
      this.#underWay = false;
    }
  }

  /** vLLM's reset, of all models, for a peer on the lookup socket; with a cache_prefix only what lies under it goes. */
  async resetForPeer(deadlineMs: number): Promise<boolean> {
    const { connector, ends } = this.#parts;
    const leftMs = Math.min(connector.saveTimeoutMs, deadlineMs - ends.nowMs());
    // The peer has been told that it failed.
    if (leftMs <= 0) return false;
    return (await this.reset({ force: true }, leftMs)).acknowledged;
  }

  /** The runtime stops: a reset that is under way fails at once, and so does every later one. */
  end(): void {
    this.#ended = true;
    for (const act of this.#waiting) act();
  }

  async #reset(force: boolean, timeoutMs: number): Promise<ResetAnswer> {
    const { ends, connector, kvCache, log, kvEvents, membership } = this.#parts;
    const answer = await resetPool({
      calls: this.#calls,
      tables: ends.tables,
      cachePrefix: connector.cachePrefix,
      model: modelNameInKeys(kvCache.modelName),
      force,
      timeoutMs,
      nowMs: ends.nowMs,
      sleep: (delayMs) => new Promise((resolve) => void this.#after(delayMs, resolve)),
      ended: () => this.#ended,
      log,
    });
    if (!answer.acknowledged) return answer;
    kvEvents?.cleared();
    await membership.checkAnew(PUBLISH_TIMEOUT_MS);
    return answer;
  }

  #after(delayMs: number, action: () => void): () => void {
    const cancel = (): void => {
      clearTimeout(timer);
      this.#waiting.delete(act);
    };
    const act = (): void => {
      cancel();
      action();
    };
    const timer = setTimeout(act, this.#ended ? 0 : delayMs);
    this.#waiting.add(act);
    return cancel;
  }
}

const CLOSED = {
  status: EngineCode.CLOSED,
  count: 0,
  kept: 0,
  value: new Uint8Array(0),
  keys: [],
  text: "the runtime stops",
};
