import {
  NONE,
  REQUEST_COMPUTED_TOKENS,
  REQUEST_FLAG_ABORTED,
  REQUEST_FLAG_NO_REUSE,
  REQUEST_FLAGS,
  REQUEST_GENERATION,
  REQUEST_OUTPUT_TOKENS_WORD,
  REQUEST_PROMPT_TOKENS,
  REQUEST_TOKENS_MAX,
} from "../../blocks/layout.ts";
import { IN_FLIGHT } from "../../connector/hooks.ts";
import {
  ACTOR_FRONT_END,
  ACTOR_LOOKUP,
  FINISH_ABORTED,
  FINISH_ERROR,
  FINISH_LENGTH,
  OUTCOME_NONE,
} from "../messages.ts";
import type { SchedulerCore } from "./core.ts";
import {
  PARKED_FOR_HASHES,
  PARKED_FOR_LOAD,
  PARKED_FOR_LOOKUP,
  STATE_DRAINING,
  STATE_FREE,
  STATE_PARKED_HASHES,
  STATE_PARKED_LOAD,
  STATE_PARKED_LOOKUP,
  STATE_RELEASED,
  STATE_RUNNING,
  STATE_WAITING,
} from "./request-states.ts";

/** A request's way outside of scheduling steps: taken, parked, ready, ended, released. */

/**
 * Takes a request whose record is live. `recovered`: after a restart, which its abort's message may not have survived; and how many
 * tokens the front end has already. Without it an abort is told by its message alone: a flag that is set amid the step would make
 * two runs of one step differ.
 */
export function addRequest(
  core: SchedulerCore,
  slot: number,
  recovered: { readonly outputTokens: number } | null,
): void {
  const { tables, states } = core;
  const record = tables.request(slot);
  const words = tables.requests;
  states.reset(slot);
  states.generation[slot] = words[record + REQUEST_GENERATION]!;
  // Pairs with the owner's Atomics.or when it aborts.
  const flags = Atomics.load(words, record + REQUEST_FLAGS);
  states.flags[slot] = recovered === null ? flags & ~REQUEST_FLAG_ABORTED : flags;
  states.promptTokens[slot] = words[record + REQUEST_PROMPT_TOKENS]!;
  states.tokensMax[slot] = words[record + REQUEST_TOKENS_MAX]!;
  const outputTokens = recovered?.outputTokens ?? 0;
  states.outputTokens[slot] = outputTokens;
  // Before the status says that this generation is known, its word must not hold a former request's count.
  // Pairs with the front end's load when it reads what it missed.
  Atomics.store(words, record + REQUEST_OUTPUT_TOKENS_WORD, outputTokens);
  words[record + REQUEST_COMPUTED_TOKENS] = 0;
  core.rows.forget(slot);
  core.setState(slot, STATE_WAITING);
  core.trace("requestAdded", slot, states.promptTokens[slot], states.tokensMax[slot]);
  core.connector?.hooks.requestAdded(slot);
  const refused = refusal(core, slot);
  if (refused !== 0) finish(core, slot, refused);
  else awaitHashes(core, slot);
}

/** FINISH_ code of a request that can never run, or 0. */
function refusal(core: SchedulerCore, slot: number): number {
  const { states } = core;
  const prompt = states.promptTokens[slot]!;
  const tokensMax = states.tokensMax[slot]!;
  if (core.stopping || (states.flags[slot]! & REQUEST_FLAG_ABORTED) !== 0) return FINISH_ABORTED;
  const tooLarge = core.blocksFor(tokensMax) * core.groups > core.allocator.usableBlocks();
  if (prompt <= 0 || tooLarge || tokensMax > core.tables.dimensions.tokensPerRequestMax) {
    core.context.log.error(
      { slot, prompt, tokensMax },
      "request does not fit: no tokens, or more than the KV blocks hold",
    );
    return FINISH_ERROR;
  }
  return states.knownTokens(slot) >= tokensMax ? FINISH_LENGTH : 0;
}

export function reuses(core: SchedulerCore, slot: number): boolean {
  return (core.states.flags[slot]! & REQUEST_FLAG_NO_REUSE) === 0;
}

function awaitHashes(core: SchedulerCore, slot: number): void {
  const { states, tables, options, connector } = core;
  const wholeBlock = tables.hashableBlocks(states.promptTokens[slot]!) > 0;
  const wanted = reuses(core, slot) && wholeBlock;
  if (!wanted || core.lookupGone) return makeReady(core, slot);
  if (connector === null) {
    states.hashPending[slot] = 1;
    requestHashes(core, slot);
  }
  states.parkedUntilMs[slot] = core.context.nowMs() + options.hashTimeoutMs;
  park(core, slot, STATE_PARKED_HASHES, PARKED_FOR_HASHES);
}

/** Without a connector the scheduler itself asks for the hashes that the local prefix cache needs. */
export function requestHashes(core: SchedulerCore, slot: number): void {
  const generation = core.states.generation[slot]!;
  core.context.send(ACTOR_LOOKUP, { kind: "hashRequest", slot, generation });
}

/** The hashes are there: asks the pool early, so that the lookup overlaps with the wait for blocks. */
export function submitLookup(core: SchedulerCore, slot: number): void {
  const { connector, options } = core;
  if (connector !== null && options.lookupAsync) {
    core.metadataOpen = true;
    const local = localHits(core, slot) * core.blockSize;
    if (connector.hooks.matchedTokens(slot, local) === IN_FLIGHT)
      return park(core, slot, STATE_PARKED_LOOKUP, PARKED_FOR_LOOKUP);
  }
  makeReady(core, slot);
}

/** Local blocks that the request may take now: whole blocks only, and at least one token is left to compute. */
export function localHits(core: SchedulerCore, slot: number): number {
  core.rows.hitsFree = 0;
  if (!reuses(core, slot)) return 0;
  return core.rows.findHits(slot, Math.floor((core.states.knownTokens(slot) - 1) / core.blockSize));
}

/** Puts the request in the waiting queue: preempted ones first, the others in the order in which they become ready. */
export function makeReady(core: SchedulerCore, slot: number): void {
  const { states } = core;
  core.setState(slot, STATE_WAITING);
  if (states.first[slot] === 1) states.waiting.pushFront(slot);
  else states.waiting.pushBack(slot);
  core.admissionDue = true;
}

export function park(core: SchedulerCore, slot: number, state: number, why: number): void {
  core.setState(slot, state);
  core.states.listOf(state)?.pushBack(slot);
  core.trace("requestParked", slot, why, 0);
}

/** Takes the request out of its parked list; the caller says what comes next. */
export function unpark(core: SchedulerCore, slot: number): void {
  const state = core.states.state[slot]!;
  core.states.listOf(state)?.remove(slot);
  core.trace("requestResumed", slot, whyParked(state), 0);
}

function whyParked(state: number): number {
  if (state === STATE_PARKED_HASHES) return PARKED_FOR_HASHES;
  return state === STATE_PARKED_LOOKUP ? PARKED_FOR_LOOKUP : PARKED_FOR_LOAD;
}

/**
 * Gives all blocks back. What a job has pinned stays out of the free queue until the job is done. `rowLent`: the connector keeps the
 * row, for a save that is still due.
 */
export function dropBlocks(core: SchedulerCore, slot: number, rowLent = false): void {
  const { states } = core;
  core.promise(slot, 0);
  core.rows.close(slot, rowLent);
  states.computedTokens[slot] = 0;
  states.cachedBlocks[slot] = 0;
  core.tables.requests[core.tables.request(slot) + REQUEST_COMPUTED_TOKENS] = 0;
  core.admissionDue = true;
}

/** The request's load is over, or is not waited for any more. */
export function leaveLoad(core: SchedulerCore, slot: number): void {
  const { states } = core;
  core.loadingBlocks -= states.loadBlocks[slot]!;
  states.loadBlocks[slot] = 0;
  states.loadJob[slot] = NONE;
  if (!core.options.loadAsync) core.syncLoads--;
}

/** Ends a request in any state but within a step in flight. Exactly one `requestFinished` a request. */
export function finish(core: SchedulerCore, slot: number, reason: number): void {
  const { states, connector, context } = core;
  const state = states.state[slot]!;
  const list = states.listOf(state);
  if (state === STATE_PARKED_HASHES || state === STATE_PARKED_LOOKUP || state === STATE_PARKED_LOAD)
    unpark(core, slot);
  else if (list?.has(slot) === true) list.remove(slot);
  if (state === STATE_PARKED_LOAD) leaveLoad(core, slot);
  const lookupOutcome = connector === null ? OUTCOME_NONE : connector.hooks.outcome(slot);
  const lent = connector?.hooks.requestFinished(slot, states.computedTokens[slot], true) === true;
  dropBlocks(core, slot, lent);
  context.send(ACTOR_FRONT_END, {
    kind: "requestFinished",
    slot,
    generation: states.generation[slot]!,
    reason,
    outputTokens: states.outputTokens[slot]!,
    localTokens: states.localTokens[slot]!,
    poolTokens: states.poolTokens[slot]!,
    lookupOutcome,
    preemptions: states.preemptions[slot]!,
  });
  core.counters.requestsFinished++;
  // Only now: a successor must rather say it twice than never.
  core.setState(slot, STATE_DRAINING);
  states.draining.pushBack(slot);
  core.trace("requestFinished", slot, reason, states.outputTokens[slot]!);
  release(core, slot);
}

/** Sends `slotReleased` for a draining request that nothing holds any more. Call when something of it has ended. */
export function release(core: SchedulerCore, slot: number): void {
  const { states, connector } = core;
  if (states.state[slot] !== STATE_DRAINING) return;
  const held = connector === null ? states.hashPending[slot] : connector.hooks.inFlight(slot);
  if (held !== 0) return;
  states.draining.remove(slot);
  core.context.send(ACTOR_FRONT_END, {
    kind: "slotReleased",
    slot,
    generation: states.generation[slot]!,
  });
  core.trace("slotReleased", slot, 0, 0);
  core.setState(slot, STATE_RELEASED);
  states.state[slot] = STATE_FREE;
}

/** Ends the request as aborted: at once, or when the step that computes it is over. */
export function abort(core: SchedulerCore, slot: number): void {
  const { states } = core;
  if (states.state[slot] === STATE_DRAINING) return;
  if (states.state[slot] === STATE_RUNNING && states.inStep[slot] !== 0)
    states.abortPending[slot] = 1;
  else finish(core, slot, FINISH_ABORTED);
}

/** Recomputation: all blocks are taken back, the request waits at the front and is looked at anew. */
export function preempt(core: SchedulerCore, slot: number): void {
  const { states, connector } = core;
  core.trace("requestPreempted", slot, states.computedTokens[slot]!, states.blocks[slot]!);
  const list = states.listOf(states.state[slot]!);
  if (list?.has(slot) === true) list.remove(slot);
  connector?.hooks.preempted(slot);
  dropBlocks(core, slot);
  states.preemptions[slot] = states.preemptions[slot]! + 1;
  states.first[slot] = 1;
  core.counters.preemptions++;
  makeReady(core, slot);
}
