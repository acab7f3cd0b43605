import type { ConnectorCounters } from "./ports.ts";
import { Attached } from "./embedded/attached.ts";
import type { ConnectorEnds } from "./embedded/attached.ts";
import { SchedulerFace } from "./embedded/scheduler-face.ts";
import { WorkerFace } from "./embedded/worker-face.ts";

export type { ConnectorEnds } from "./embedded/attached.ts";
export type { BlockIdsPerGroup } from "./embedded/requests.ts";
export type { AddRequestOptions, PromptEmbeddings } from "./embedded/request-options.ts";
export type { FinalStates, ScheduledRequest, SchedulerStep } from "./embedded/scheduler-face.ts";
export type { FailedLoad, FinishedTransfers } from "./embedded/worker-face.ts";

export interface ConnectorGauges {
  readonly requests: number;
  /** Finished requests of which something is still in flight. */
  readonly draining: number;
  readonly jobs: number;
  readonly waitingLookups: number;
  readonly quarantinedBlocks: number;
  readonly unknownIds: number;
  readonly lostEvents: number;
  readonly counters: Readonly<ConnectorCounters>;
}

/**
 * vLLM's KVConnectorBase_V1 for a serving loop with its own scheduler, on the thread that made this object. It takes its
 * messages when it is called and needs no turn of the event loop. Order of the calls in one step: getNumNewMatchedTokens and
 * updateStateAfterAlloc for each request that is looked at, buildConnectorMeta, startLoadKv, (waitForLoads,) the model,
 * waitForSave, getFinished, updateConnectorOutput.
 */
export class Connector {
  readonly scheduler: SchedulerFace;
  readonly worker: WorkerFace;
  readonly #attached: Attached;

  /**
   * Throws WRONG_THREAD when another thread has attached to the same runtime. What a thread that died attached left behind
   * drains like finished requests; see `idle`.
   */
  constructor(ends: ConnectorEnds) {
    this.#attached = new Attached(ends);
    this.scheduler = new SchedulerFace(this.#attached, ends.slots);
    this.worker = new WorkerFace(this.#attached);
  }

  /** True when no request lives and nothing is in flight. */
  idle(): boolean {
    return this.#attached.idle();
  }

  gauges(): ConnectorGauges {
    const { requests, sides } = this.#attached.enter();
    return {
      requests: requests.live,
      draining: requests.draining,
      jobs: sides.hooks.liveJobs(),
      waitingLookups: sides.hooks.waitingLookups(),
      quarantinedBlocks: sides.hooks.quarantinedBlocks(),
      unknownIds: this.scheduler.unknownIds,
      lostEvents: this.#attached.lostEvents(),
      counters: sides.hooks.counters,
    };
  }

  /** Ends the attachment; another thread may attach. Throws NOT_IDLE while `idle` is false. Every later call throws CLOSED. */
  detach(): void {
    this.#attached.detach();
  }

  /** For the end of the runtime behind it: like `detach`, whatever is in flight. */
  close(): void {
    this.#attached.close();
  }
}
