/**
 * The connector's two sides as the built-in scheduler and the vLLM-named face use them: vLLM's KVConnectorBase_V1 hooks,
 * by slot and in numbers. Both sides are pure: clock, log, trace and mailboxes come in from outside, nothing waits.
 *
 *  scheduler side (thread that attached it)          worker side (one per rank)
 *  ------------------------------------------------  -----------------------------------------------
 *  matchedTokens       get_num_new_matched_tokens    startLoads        start_load_kv
 *  blocksAllocated     update_state_after_alloc      startSaves        wait_for_save (starts, never waits)
 *  scheduled           (the step's scheduler_output) collect           get_finished + get_block_ids_with_load_errors
 *  buildMetadata       build_connector_meta
 *  applyOutput         update_connector_output
 *  requestFinished     request_finished -> always (false, null): saves pin their blocks per store job
 */

import type { ActorGone, ActorRestarted, Hashed, LookupDone } from "../actors/messages.ts";
import type { ConnectorCounters } from "./ports.ts";

/** Lookup in flight: park the request and ask again when `lookupDone` has come (or on a later step). */
export const IN_FLIGHT = -1;
/** Below this a result of `matchedTokens` is a failure: FAILURE_BASE - OUTCOME code. The request computes. */
export const FAILURE_BASE = -100;

/** The serving loop's block allocator as the connector needs it. Block ids of all groups come from one pool. */
export interface BlockPool {
  /** Holds blocks for a save job or a load: they may not be reused before `unpin`, even if their request ends. */
  pin(blockIds: Int32Array, count: number): void;
  unpin(blockIds: Int32Array, count: number): void;
}

/** A recurrent state that is complete: where it lies, and the tokens from the request's first one that it holds. */
export interface BoundaryState {
  readonly group: number;
  readonly block: number;
  /** Ends on a block hash. */
  readonly tokens: number;
}

/** What one scheduling step asks of the worker sides: job-table indexes. Reused between steps; valid until the next build. */
export interface ConnectorMetadata {
  readonly loads: Int32Array;
  loadCount: number;
  readonly saves: Int32Array;
  saveCount: number;
  /** At least one load must be complete before this step's model run (load_async false). */
  hasSyncLoads: boolean;
}

/** What worker sides report, merged over ranks by the output aggregator. Reused between steps. */
export interface ConnectorOutput {
  /** Jobs that every rank has finished since the last collection. */
  readonly doneLoads: Int32Array;
  doneLoadCount: number;
  readonly doneSaves: Int32Array;
  doneSaveCount: number;
  /** Parallel to doneLoads: first chunk that did not arrive on some rank, NONE when all did. */
  readonly badChunks: Int32Array;
  /** Parallel to doneLoads: worst OUTCOME_ over ranks. */
  readonly loadOutcomes: Int32Array;
  readonly saveOutcomes: Int32Array;
}

/** What the lookup actor and the supervisor tell the scheduler side; whoever owns the mailbox passes it on. */
export type SchedulerSideMessage = Hashed | LookupDone | ActorRestarted | ActorGone;

export interface SchedulerHooks {
  readonly counters: Readonly<ConnectorCounters>;
  /** Announces a request whose record and rows are filled: starts hashing. Call once, before anything else. */
  requestAdded(slot: number): void;
  /**
   * Takes a message. True: it was expected, and the wait of a request that is parked for it is over. False: late, duplicate
   * or unknown (counted, logged, dropped). Either way it may have been the last that held its slot: see `inFlight`.
   */
  receive(message: SchedulerSideMessage): boolean;
  /** The lookup actor still hashes the prompt. */
  hashing(slot: number): boolean;
  /**
   * Hashes whatever whole blocks of the request's first `tokens` tokens are not hashed yet (those past the prompt); false
   * while `hashing`.
   */
  hashTo(slot: number, tokens: number): boolean;
  /**
   * get_num_new_matched_tokens. Tokens beyond `computedTokens` (local hit, whole blocks) that the pool holds; IN_FLIGHT; or
   * a failure (see FAILURE_BASE), which counts as 0. Submits the lookup when there is none. Costs a few memory operations
   * (and, for a request that has generated tokens, hashing its blocks past the prompt once).
   * With lookup_async false it waits for the answer, at most lookup_timeout_ms.
   */
  matchedTokens(slot: number, computedTokens: number): number;
  /**
   * update_state_after_alloc. The request's block rows in the request table hold local and external blocks now.
   * `externalTokens` 0: the pool's offer is not taken. With load_async the request waits until its load is in the output.
   */
  blocksAllocated(slot: number, externalTokens: number): void;
  /** The step computes tokens [computedTokens, computedTokens + tokens) of the request. Call for each sequence of a step. */
  scheduled(slot: number, computedTokens: number, tokens: number): void;
  /**
   * The step completes a state of a Mamba group (vLLM's boundary_state_offloads): its block is saved under the hash of the
   * first `tokens` tokens. Call in the step; states past the prefill are dropped.
   */
  stateReached(slot: number, group: number, block: number, tokens: number): void;
  /**
   * vLLM's register_finished_partial_tail: states of a request that ends, all of one prefix, and with them the rest of its
   * prompt's blocks. Call before `requestFinished`, with the request's row still in its record; saved with the next step.
   */
  finalStates(slot: number, states: readonly BoundaryState[], computedTokens: number): void;
  /** The request's blocks are taken away; it will be looked at anew. Running saves keep their pins. */
  preempted(slot: number): void;
  /**
   * Exactly once, also for aborts, before the scheduler frees the blocks. Cancels lookup and load. What steps had to leave out
   * is saved later, up to `computedTokens`: tokens whose KV is in the request's blocks. Left out, they are those of steps of which
   * `stepRan` told. `lendsRow`: the caller agrees to true as the answer, which says that the request's row, its pages and its words in
   * the record, now belongs to the connector; it holds the blocks and lets go of all when `settleSaves` has made the save. Without
   * it, or when the blocks are not the request's any more, nothing is saved later.
   */
  requestFinished(slot: number, computedTokens?: number, lendsRow?: boolean): boolean;
  /**
   * Makes the saves that ended requests still owe, as far as there is room by now, and visits the slots that wait for none any more.
   * Their jobs are to be started at once, whatever step runs; null for none. Cheap when nothing is owed.
   */
  settleSaves(visit: (slot: number) => void): ConnectorMetadata | null;
  /** Blocks are needed. True: what waited for a pool that a reset pauses was given up for them; look again. */
  giveWay(visit: (slot: number) => void): boolean;
  /** The step that is being built is given up: what was told of it since the last `buildMetadata` is forgotten. */
  dropStep(): void;
  /** The model ran the step that was built last: call it where the step's saves are started. */
  stepRan(): void;
  /** Closes the step: writes job records, pins their blocks, wakes the actors once. */
  buildMetadata(): ConnectorMetadata;
  /**
   * Unpins, frees job records, marks load results: badChunks and loadOutcomes become final, a job that is not there (any
   * more) becomes NONE. Call before acting on `output` (order of vLLM's update_from_output).
   */
  applyOutput(output: ConnectorOutput): void;
  /** Jobs, lookups that still hold the slot: 0 means that the slot may be released. */
  inFlight(slot: number): number;
  /** Blocks pinned by jobs whose request is gone or was preempted (quarantined). */
  quarantinedBlocks(): number;
  /** OUTCOME_ code of the request's lookup. */
  outcome(slot: number): number;
  /**
   * Request slot of a load or save job, readable until the next `blocksAllocated` or `buildMetadata`; NONE when the job's
   * request has left (finished, preempted) and nobody waits for it.
   */
  jobSlot(job: number): number;
  /** Next time at which `expire` must run, in nowMs milliseconds; Infinity when nothing waits. */
  nextDeadlineMs(): number;
  /**
   * Turns overdue lookups into TIMEOUT and cancels overdue loads, which go on waiting for the engine's word; visits slots
   * whose wait ended by that. `loadLost`: the slot has waited in vain for that word for another loadTimeoutMs; its blocks
   * stay quarantined, so take them away as by preemption and compute.
   */
  expire(visit: (slot: number, loadLost: boolean) => void): void;
}
