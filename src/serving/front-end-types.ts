import type { Mailbox } from "../actors/mailbox/mailbox.ts";
import type { Outboxes } from "../actors/hosts/outboxes.ts";
import type { Log } from "../actors/step.ts";
import type { TopLogprob } from "../blocks/logprob-rows.ts";
import type { Tables } from "../blocks/tables.ts";
import type { CounterBlock } from "../trace/counters.ts";

/** What the front end asks of the owner of request slots; `RequestSlots` of src/blocks/request-slots.ts has this shape. */
export interface RequestSlotsPort {
  /** Fills record, token row and hash row of a free slot and publishes it live; or says why not, changing nothing. */
  addRequest(request: SlotRequest): SlotAdded | SlotRefused;
  /** Takes back a slot that the scheduler has released. */
  release(slot: number): void;
}
export interface SlotRequest {
  readonly tokens: Int32Array;
  /** Prompt tokens plus the most tokens that may be generated. */
  readonly tokensMax: number;
  /** Words of the extra-key stream (keys/block-extra.ts), or null when no block has an extra key. */
  readonly extras: Int32Array | null;
  readonly sampling: SlotSampling;
  /** REQUEST_FLAG_ bits. */
  readonly flags: number;
}
export interface SlotSampling {
  readonly temperature: number;
  readonly topP: number;
  /** Int32. */
  readonly seed: number;
  /** Wanted top log-probabilities a token, NONE for no log-probability at all. */
  readonly logprobs: number;
}
export interface SlotAdded {
  readonly ok: true;
  readonly slot: number;
  readonly generation: number;
}
export interface SlotRefused {
  readonly ok: false;
  /** CAPACITY: try again when others have ended. TOO_LONG: never fits. */
  readonly reason: "CAPACITY" | "TOO_LONG";
}

export interface FrontEndPorts {
  readonly tables: Tables;
  readonly slots: RequestSlotsPort;
  /** The front end's own mailbox (ACTOR_FRONT_END). */
  readonly mailbox: Mailbox;
  readonly outboxes: Outboxes;
  /** Milliseconds, monotonic. */
  readonly nowMs: () => number;
  /** Deaths of actor threads so far (ThreadEnds.deaths). */
  readonly deaths: () => number;
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
export interface NewRequest {
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
