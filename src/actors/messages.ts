/**
 * Every message that crosses a thread, as one tagged union.
 *
 * A message is at most 15 Int32 words and travels in a mailbox record of 64 bytes (mailbox/mailbox.ts); whatever is larger
 * lies in a shared table and the message names it. (slot, generation) is a request, `job` an index of the job table, `step`
 * one of the step buffers. A receiver drops, counts and logs a message whose generation is not the slot's any more.
 */

/** Front end -> scheduler. The slot's record, token row and hash row are filled and live. */
export interface AddRequest {
  readonly kind: "addRequest";
  readonly slot: number;
  readonly generation: number;
}
/** Front end -> scheduler. The request ends as soon as possible; the answer is `requestFinished` all the same. */
export interface AbortRequest {
  readonly kind: "abortRequest";
  readonly slot: number;
  readonly generation: number;
}
/** Front end -> scheduler. Drops every local prefix-cache block that no request holds; answered by `localCacheDropped`. */
export interface DropLocalCache {
  readonly kind: "dropLocalCache";
  readonly ticket: number;
}
/** Scheduler -> front end. `blocks` were dropped. */
export interface LocalCacheDropped {
  readonly kind: "localCacheDropped";
  readonly ticket: number;
  readonly blocks: number;
}
/** Scheduler -> front end. Token number `index` (from 0) of the answer. */
export interface TokenGenerated {
  readonly kind: "tokenGenerated";
  readonly slot: number;
  readonly generation: number;
  readonly index: number;
  readonly token: number;
  /** Bits of its log-probability as float32; of NaN when the request wants none. */
  readonly logprobF32: number;
  readonly logitsHashLow: number;
  readonly logitsHashHigh: number;
  /** Row of its top log-probabilities (blocks/logprob-rows.ts), or NONE. */
  readonly logprobRow: number;
}
/** Scheduler -> front end. The request has ended; its slot comes back with `slotReleased`. */
export interface RequestFinished {
  readonly kind: "requestFinished";
  readonly slot: number;
  readonly generation: number;
  /** A FINISH_ code. */
  readonly reason: number;
  readonly outputTokens: number;
  /** Prompt tokens that came from local blocks and from the pool (0 for recomputed after a failed load). */
  readonly localTokens: number;
  readonly poolTokens: number;
  /** An OUTCOME_ code: how the pool lookup ended. */
  readonly lookupOutcome: number;
  readonly preemptions: number;
}
/** Scheduler -> front end. Nothing of this request is in flight any more: the slot may be used again. */
export interface SlotReleased {
  readonly kind: "slotReleased";
  readonly slot: number;
  readonly generation: number;
}

/** Scheduler side -> lookup. Hash the request's prompt blocks; answered by `hashed`. */
export interface HashRequest {
  readonly kind: "hashRequest";
  readonly slot: number;
  readonly generation: number;
}
/** Lookup -> scheduler side. The first `blocks` rows hold digests; from now on the scheduler side alone writes the row. */
export interface Hashed {
  readonly kind: "hashed";
  readonly slot: number;
  readonly generation: number;
  readonly blocks: number;
}
/** Scheduler side -> lookup. How many leading tokens are in the pool? Hashes first what is not hashed yet. */
export interface Lookup {
  readonly kind: "lookup";
  readonly slot: number;
  readonly generation: number;
  readonly attempt: number;
  /** Tokens to cover: the answer is at most this, and below it when everything is there. */
  readonly tokens: number;
  /** Hash blocks that are in the row already; 0 while `hashed` is still to come. */
  readonly hashedBlocks: number;
}
/** Lookup -> scheduler side. The answer is in the request table, published by REQUEST_LOOKUP_WORD. */
export interface LookupDone {
  readonly kind: "lookupDone";
  readonly slot: number;
  readonly generation: number;
  readonly attempt: number;
}
/** Scheduler side -> lookup. The answer is not wanted any more (abort, timeout). Always answered by `lookupDone`. */
export interface DiscardLookup {
  readonly kind: "discardLookup";
  readonly slot: number;
  readonly generation: number;
  readonly attempt: number;
}

/** Worker side -> loader. Job table record `job` says what to load into which blocks. */
export interface Load {
  readonly kind: "load";
  readonly job: number;
  /** Which use of the record is meant (JOB_TICKET); of another one the message is late, and dropped. */
  readonly ticket: number;
  /** Index of the worker side (rank) in this process: chooses the key space. */
  readonly worker: number;
}
/** Loader -> worker side. Always comes, also after failures and aborts; the engine touches none of the blocks any more. */
export interface LoadDone {
  readonly kind: "loadDone";
  readonly job: number;
  readonly ticket: number;
  readonly worker: number;
  /** OUTCOME_HIT when every block arrived, otherwise why not. */
  readonly outcome: number;
  /** First chunk (absolute index in the request) whose block did not arrive, or NONE. */
  readonly badChunk: number;
  readonly memoryBlocks: number;
  readonly diskBlocks: number;
  readonly kibibytes: number;
  readonly microseconds: number;
}
/** Worker side -> loader. Give the job up at the next batch boundary; `loadDone` still comes. */
export interface CancelLoad {
  readonly kind: "cancelLoad";
  readonly job: number;
  readonly ticket: number;
}

/** Worker side -> saver. The blocks' bytes are final: the step that computed them is over. */
export interface Save {
  readonly kind: "save";
  readonly job: number;
  readonly ticket: number;
  readonly worker: number;
}
/** Saver -> worker side. Always comes; the engine reads none of the blocks any more. */
export interface SaveDone {
  readonly kind: "saveDone";
  readonly job: number;
  readonly ticket: number;
  readonly worker: number;
  /** OUTCOME_HIT when every block is in the pool now (written or there before). */
  readonly outcome: number;
  readonly writtenBlocks: number;
  readonly presentBlocks: number;
  readonly failedBlocks: number;
  readonly kibibytes: number;
  readonly microseconds: number;
}

/** Scheduler -> model. Step buffer `step` is filled. */
export interface RunStep {
  readonly kind: "runStep";
  readonly step: number;
  readonly number: number;
}
/** Model -> scheduler. Results are in the step buffer; status 0, or below 0 when the step failed and must be run again. */
export interface StepDone {
  readonly kind: "stepDone";
  readonly step: number;
  readonly number: number;
  readonly status: number;
  readonly microseconds: number;
}

/** Supervisor -> every other actor. Actor `actor` runs anew under `epoch`; what it was doing must be asked again. */
export interface ActorRestarted {
  readonly kind: "actorRestarted";
  /** An ACTOR_ number. */
  readonly actor: number;
  readonly epoch: number;
}
/**
 * Supervisor -> every other actor. Actor `actor` has died too often and does not come back; the engine holds nothing of it any
 * more. Whoever waits for it has its answer: ENGINE_DOWN. Nothing more is sent to it.
 */
export interface ActorGone {
  readonly kind: "actorGone";
  /** An ACTOR_ number. */
  readonly actor: number;
}
/** Supervisor -> an actor. Take no new work, finish or give up what is in flight, then end. */
export interface Stop {
  readonly kind: "stop";
  readonly deadlineMs: number;
}

export type Message =
  | AddRequest
  | AbortRequest
  | DropLocalCache
  | LocalCacheDropped
  | TokenGenerated
  | RequestFinished
  | SlotReleased
  | HashRequest
  | Hashed
  | Lookup
  | LookupDone
  | DiscardLookup
  | Load
  | LoadDone
  | CancelLoad
  | Save
  | SaveDone
  | RunStep
  | StepDone
  | ActorRestarted
  | Stop
  | ActorGone;

export type MessageKind = Message["kind"];
export type MessageOf<Kind extends MessageKind> = Extract<Message, { kind: Kind }>;

/** Actors and the two edges that have a mailbox. */
export const ACTOR_SCHEDULER = 0;
export const ACTOR_LOOKUP = 1;
export const ACTOR_LOADER = 2;
export const ACTOR_SAVER = 3;
export const ACTOR_MODEL = 4;
/** The thread that owns request slots: an HTTP front end, or the thread that attached the connector. */
export const ACTOR_FRONT_END = 5;
export const ACTOR_SUPERVISOR = 6;
export const ACTOR_COUNT = 7;
/** By ACTOR_ number. */
export { TRACE_LANES as ACTOR_NAMES } from "../trace/lanes.ts";

export const FINISH_STOP = 1;
export const FINISH_LENGTH = 2;
export const FINISH_ABORTED = 3;
export const FINISH_ERROR = 4;

/** How a lookup, load or save ended. Equal to the LOOKUP_ states of blocks/layout.ts where both have the name. */
export const OUTCOME_NONE = 0;
export const OUTCOME_HIT = 2;
export const OUTCOME_MISS = 3;
export const OUTCOME_ENGINE_ERROR = 4;
export const OUTCOME_ENGINE_DOWN = 5;
export const OUTCOME_TIMEOUT = 6;
export const OUTCOME_IDENTITY_MISMATCH = 7;
/** The pool has no room (saves), or the request was aborted or preempted (loads). */
export const OUTCOME_NO_SPACE = 8;
export const OUTCOME_CANCELLED = 9;
/** A hit that is not loaded: all job records are in use, or too many blocks are of loads that the engine does not give back. */
export const OUTCOME_BACK_PRESSURE = 10;
/** By OUTCOME_ code. */
export { OUTCOME_LABELS as OUTCOME_NAMES } from "../trace/lanes.ts";
