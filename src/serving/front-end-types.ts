import type { Mailbox } from "../actors/mailbox/mailbox.ts";
import type { Outboxes } from "../actors/hosts/outboxes.ts";
import type { Log } from "../actors/step.ts";
import type { TopLogprob } from "../blocks/logprob-rows.ts";
import type { RequestSlots } from "../blocks/request-slots.ts";
import type { Tables } from "../blocks/tables.ts";
import type { CounterBlock } from "../trace/counters.ts";

export interface FrontEndPorts {
  readonly tables: Tables;
  readonly slots: Pick<RequestSlots, "addRequest" | "release">;
  /** The front end's own mailbox (ACTOR_FRONT_END). */
  readonly mailbox: Mailbox;
  readonly outboxes: Outboxes;
  /** Milliseconds, monotonic. */
  readonly nowMs: () => number;
  readonly counters: CounterBlock;
  readonly log: Log;
}

export interface FrontEndLimits {
  /** Requests that may wait for a slot; further ones are refused. */
  readonly queuedRequestsMax: number;
  /** How long a request may wait for a slot. */
  readonly queueTimeoutMs: number;
  /** How long `dropLocalCache` waits for the scheduler. */
  readonly dropLocalCacheTimeoutMs: number;
}

export const FRONT_END_LIMITS: FrontEndLimits = {
  queuedRequestsMax: 256,
  queueTimeoutMs: 30_000,
  dropLocalCacheTimeoutMs: 10_000,
};

/** A request as the front end takes it. Checked by the caller: see `checkSamplingParameters` for the ranges. */
export interface FrontEndRequest {
  /** Text id, for traces and logs. */
  readonly id: string;
  readonly promptTokens: Int32Array;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly topP: number;
  /** Safe integer; folded into 32 bits. */
  readonly seed: number;
  /** Wanted top log-probabilities a token (0: the chosen token's only); undefined: none. */
  readonly logprobs?: number | undefined;
  readonly cacheSalt?: string | undefined;
  /** Neither reads nor writes the pool or the local prefix cache. */
  readonly noReuse?: boolean | undefined;
  readonly ignoreEndTokens?: boolean | undefined;
}

/** Calls come on the front end's thread, tokens in order, `finished` exactly once and last. They must not throw. */
export interface RequestListener {
  /**
   * `logprob` is NaN when none was asked for, and for a token that was read from the token row after a scheduler died before
   * announcing it; `top` is null then too. `logitsHash` is the 64-bit hash of the raw logits as 16 hex digits, "" when unknown.
   */
  token(
    token: number,
    index: number,
    logprob: number,
    top: readonly TopLogprob[] | null,
    logitsHash: string,
  ): void;
  finished(summary: RequestSummary): void;
}

/** Why a request that was queued never got a slot. */
export type QueueFailure = "QUEUE_TIMEOUT" | "CAPACITY" | "CLOSED";

export interface RequestSummary {
  /** A FINISH_ code. */
  readonly reason: number;
  readonly outputTokens: number;
  /** Prompt tokens from local blocks, and from the pool. */
  readonly localTokens: number;
  readonly poolTokens: number;
  /** An OUTCOME_ code. */
  readonly lookupOutcome: number;
  readonly preemptions: number;
  /** From `submit` to the first token; NaN when there was none. */
  readonly timeToFirstTokenMs: number;
  /** Set when the request never reached the scheduler. */
  readonly failure: QueueFailure | null;
}

export interface RequestHandle {
  readonly ok: true;
  readonly id: string;
  /** NONE while the request waits for a slot. */
  readonly slot: number;
  readonly generation: number;
  /** Ends the request as soon as possible: no more `token` calls; `finished` still comes. May be called again. */
  abort(): void;
}

export interface SubmitRefusal {
  readonly ok: false;
  /** CAPACITY: slots and queue are full, try later. TOO_LONG: no runtime of this size can hold it. CLOSED: shutting down. */
  readonly reason: "CAPACITY" | "TOO_LONG" | "CLOSED";
  readonly remedy: string;
}
