import { OUTCOME_NAMES } from "../../actors/messages.ts";
import { NONE, REQUEST_FLAG_NO_REUSE } from "../../blocks/layout.ts";
import type { RequestSlots } from "../../blocks/request-slots.ts";
import { checkTokens } from "../../blocks/token-ids.ts";
import { flag } from "../../config/kv-checks.ts";
import { MooncakeKvError } from "../../errors.ts";
import type { KvEvent } from "../../events/kv-events.ts";
import { FAILURE_BASE, IN_FLIGHT } from "../hooks.ts";
import type { BoundaryState, ConnectorMetadata } from "../hooks.ts";
import { checkId, checkRecord, checkWhole } from "./arguments.ts";
import type { ResetAnswer, ResetOptions } from "../reset-answer.ts";
import type { Attached } from "./attached.ts";
import { checkFinal, checkRows, checkStep } from "./check-step.ts";
import { checkRequest, type AddRequestOptions } from "./request-options.ts";
import type { BlockIdsPerGroup } from "./requests.ts";
import type { FinishedTransfers } from "./worker-face.ts";

export interface ScheduledRequest {
  readonly id: string;
  /** Tokens whose KV is there before the step, and how many the step computes. */
  readonly numComputedTokens: number;
  readonly numScheduledTokens: number;
  /** Blocks that were added since `updateStateAfterAlloc` or the last step; null for none. */
  readonly newBlockIds: BlockIdsPerGroup | null;
  /**
   * All blocks of the request as they are now, in place of `newBlockIds`: for groups that give blocks back while the request
   * runs (windows, states), whose places then hold the null block 0. A save needs the rows of its step.
   */
  readonly blockIds?: BlockIdsPerGroup;
  /** States that this step completes, where they lie (vLLM's boundary_state_offloads): only so are states saved. */
  readonly boundaryPuts?: readonly BoundaryState[];
}
/** What a request leaves when it ends: vLLM's register_finished_partial_tail. */
export interface FinalStates {
  /** All of one prefix, which may end inside of a block. */
  readonly states: readonly BoundaryState[];
  readonly numComputedTokens: number;
}
export interface SchedulerStep {
  readonly scheduled: readonly ScheduledRequest[];
  readonly preempted?: readonly string[];
  /** Requests that ended since the last step; those that `requestFinished` was told of may be among them. */
  readonly finished?: readonly string[];
}

/** KVConnectorBase_V1's scheduler side for a serving loop with its own scheduler. Unknown ids are counted, never fatal. */
export class SchedulerFace {
  /** Calls that named a request which is not there (any more). */
  unknownIds = 0;
  readonly #attached: Attached;
  readonly #slots: RequestSlots;

  constructor(attached: Attached, slots: RequestSlots) {
    this.#attached = attached;
    this.#slots = slots;
  }

  /**
   * on_new_request: copies the prompt and starts hashing. Call before any other hook for this id. Throws CAPACITY (try again
   * when requests have ended), INVALID_VALUE or INVALID_TYPE (prompt empty or too long, id in use, options of another shape).
   */
  addRequest(id: string, tokens: ArrayLike<number>, options: AddRequestOptions = {}): void {
    const { requests, sides, tables } = this.#attached.enter();
    checkId(id);
    if (requests.slot(id) !== NONE)
      throw refusal(
        "INVALID_VALUE",
        "id",
        id,
        "is in use",
        "Finish that request, or use another id.",
      );
    const checked = checkRequest(tokens, options, tables.dimensions);
    const { tokensMax, extras, tokens: hashed, noReuse } = checked;
    const flags = noReuse ? REQUEST_FLAG_NO_REUSE : 0;
    const added = this.#slots.addRequest({ tokens: hashed, tokensMax, extras, flags });
    if (!added.ok) {
      const long = added.reason === "TOO_LONG";
      throw refusal(
        long ? "INVALID_VALUE" : "CAPACITY",
        long ? "tokens" : "addRequest",
        tokensMax,
        long ? "the request is longer than the tables hold" : "the tables are full",
        added.remedy,
      );
    }
    requests.opened(id, added.slot);
    sides.hooks.requestAdded(added.slot);
  }

  /**
   * Tokens that the request has generated. Throws as `addRequest` does for what is no list of token ids, and INVALID_VALUE for
   * more tokens than the request may have; nothing of such a list is taken.
   */
  appendTokens(id: string, tokens: ArrayLike<number>): void {
    const { requests } = this.#attached.enter();
    checkTokens(tokens);
    const slot = this.#slot(id);
    if (slot !== NONE) requests.appendTokens(slot, tokens);
  }

  /**
   * get_num_new_matched_tokens: [tokens beyond the local hit that the pool holds, whether they load asynchronously]. null:
   * the lookup is in flight, ask again on a later step. Failures count as 0; see `outcome`.
   */
  getNumNewMatchedTokens(id: string, numComputedTokens: number): [number | null, boolean] {
    const { sides, settings } = this.#attached.enter();
    const slot = this.#slot(id);
    if (slot === NONE) return [0, false];
    checkWhole("numComputedTokens", numComputedTokens, 0, this.#attached.requests.tokens(slot));
    const tokens = sides.hooks.matchedTokens(slot, numComputedTokens);
    if (tokens === IN_FLIGHT) return [null, false];
    return tokens <= FAILURE_BASE || tokens === 0 ? [0, false] : [tokens, settings.loadAsync];
  }

  /**
   * update_state_after_alloc: `blockIds` are ALL blocks of the request. `numExternalTokens` is what was offered in this step,
   * or 0. Throws INVALID_VALUE when it is neither, or when a block id is not one.
   */
  updateStateAfterAlloc(id: string, blockIds: BlockIdsPerGroup, numExternalTokens: number): void {
    const { requests, sides, tables } = this.#attached.enter();
    const slot = this.#slot(id);
    checkRows(blockIds);
    checkWhole("numExternalTokens", numExternalTokens, 0, tables.dimensions.tokensPerRequestMax);
    if (slot === NONE) return;
    requests.setRow(slot, blockIds);
    sides.hooks.blocksAllocated(slot, numExternalTokens);
  }

  /** build_connector_meta: call once each step, also for empty ones. The result is valid until the next call. */
  buildConnectorMeta(step: SchedulerStep): ConnectorMetadata {
    const { requests, sides, tables } = this.#attached.enter();
    checkStep(step, tables.dimensions);
    // The loop has freed their blocks by now, so what they owe cannot be saved any more.
    for (const id of step.finished ?? [])
      if (requests.slot(id) !== NONE) this.#finish(id, requests.slot(id), false);
    for (const id of step.preempted ?? []) {
      const slot = this.#slot(id);
      if (slot === NONE) continue;
      sides.hooks.preempted(slot);
      requests.clearRow(slot);
    }
    try {
      for (const request of step.scheduled) this.#schedule(request);
    } catch (error) {
      // Its first sequences must not be saved with the next step: nobody computes them.
      sides.hooks.dropStep();
      throw error;
    }
    this.#attached.expire();
    return this.#attached.told(sides.hooks.buildMetadata());
  }

  #schedule(request: ScheduledRequest): void {
    const { requests, sides } = this.#attached;
    const { id, numComputedTokens, numScheduledTokens, newBlockIds, blockIds } = request;
    const slot = this.#slot(id);
    if (slot === NONE) return;
    if (blockIds !== undefined) requests.setRow(slot, blockIds);
    else if (newBlockIds !== null) requests.appendRow(slot, newBlockIds);
    sides.hooks.scheduled(slot, numComputedTokens, numScheduledTokens);
    for (const { group, block, tokens } of request.boundaryPuts ?? [])
      sides.hooks.stateReached(slot, group, block, tokens);
  }

  /** update_connector_output: unpins what is done. Call before acting on `finished`. */
  updateConnectorOutput(finished: FinishedTransfers): void {
    const { sides } = this.#attached.enter();
    checkRecord(finished, "finished");
    sides.hooks.applyOutput(this.#attached.checkOutput(finished.output));
    this.#attached.settleSaves();
    this.#attached.releaseDrained();
  }

  /**
   * request_finished, also for aborts, once, before the blocks are freed. Never delays that: saves pin their blocks. `blockIds`,
   * the request's row as it is now, is needed with `final` only. Throws INVALID_VALUE for states that are none.
   */
  requestFinished(id: string, blockIds?: BlockIdsPerGroup, final?: FinalStates): [false, null] {
    const { requests, sides, tables } = this.#attached.enter();
    const slot = this.#slot(id);
    if (blockIds !== undefined) checkRows(blockIds);
    if (final !== undefined) checkFinal(final, tables.dimensions);
    if (slot === NONE) return [false, null];
    if (final !== undefined) {
      if (blockIds !== undefined) requests.setRow(slot, blockIds);
      sides.hooks.finalStates(slot, final.states, final.numComputedTokens);
    }
    this.#finish(id, slot, true);
    this.#attached.settleSaves();
    return [false, null];
  }

  #finish(id: string, slot: number, holdsBlocks: boolean): void {
    const { requests, sides } = this.#attached;
    requests.finished(id, slot, sides.hooks.requestFinished(slot, undefined, holdsBlocks));
  }

  /** How the request's lookup or load ended: HIT, MISS, TIMEOUT, ENGINE_ERROR, ENGINE_DOWN, ... or NONE. */
  outcome(id: string): (typeof OUTCOME_NAMES)[number] {
    const { sides } = this.#attached.enter();
    const slot = this.#slot(id);
    return slot === NONE ? "NONE" : (OUTCOME_NAMES[sides.hooks.outcome(slot)] ?? "NONE");
  }

  /**
   * take_events: one BlockStored for each block that the pool has now and had not before. Empty unless KV events are enabled;
   * then call it in every step, because events that nobody takes are lost in the end (`gauges().lostEvents`).
   */
  takeEvents(): readonly KvEvent[] {
    return this.#attached.enter().takeEvents();
  }

  /**
   * reset_cache: ends what is being saved, within save_timeout_ms, and removes this deployment's keys from the pool (`force`: see
   * ResetOptions; vLLM's reset is the forced one). Call it between two steps, with every request finished or preempted: else it is
   * refused as BUSY and nothing is removed. Until the promise resolves lookups answer at once and saves wait; the event loop has to
   * turn. Rejects only as every call does (WRONG_THREAD, CLOSED).
   */
  async resetStore(options: ResetOptions = {}): Promise<ResetAnswer> {
    checkRecord(options, "options", ["force"] satisfies (keyof ResetOptions)[]);
    const { force = false } = options;
    return this.#attached.resetPool({ force: flag(force, "force") });
  }

  #slot(id: string): number {
    checkId(id);
    const slot = this.#attached.requests.slot(id);
    if (slot === NONE) {
      this.unknownIds++;
      this.#attached.log.debug({ id }, "a call names a request that is not there");
    }
    return slot;
  }
}

function refusal(
  code: "CAPACITY" | "INVALID_VALUE",
  field: string,
  value: unknown,
  problem: string,
  remedy: string,
): MooncakeKvError {
  return new MooncakeKvError({ code, field, value, problem, remedy });
}
