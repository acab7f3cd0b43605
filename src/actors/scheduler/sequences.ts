import { NONE, REQUEST_COMPUTED_TOKENS } from "../../blocks/layout.ts";
import type { SchedulerCore } from "./core.ts";
import { preempt, release, reuses } from "./requests.ts";

/** Sequences of the step that is being filled. */

export function setComputed(core: SchedulerCore, slot: number, tokens: number): void {
  core.states.computedTokens[slot] = tokens;
  core.tables.requests[core.tables.request(slot) + REQUEST_COMPUTED_TOKENS] = tokens;
}

export function stepHasRoom(core: SchedulerCore): boolean {
  const { step, options } = core;
  return step.tokensLeft > 0 && step.sequences < options.sequencesMax;
}

/** Tokens of the request that are known and not computed. */
export function tokensDue(core: SchedulerCore, slot: number): number {
  return core.states.knownTokens(slot) - core.states.computedTokens[slot]!;
}

/**
 * Enters the next tokens of a running request in the step: as many as budget, blocks and the front end's room allow. False
 * when not even one can be: the request keeps its blocks and its place, and is looked at again in the next step.
 */
export function scheduleNext(core: SchedulerCore, slot: number): boolean {
  const { states, step } = core;
  const computed = states.computedTokens[slot]!;
  let tokens = Math.min(tokensDue(core, slot), step.tokensLeft);
  const wholeTokens = tokensDue(core, slot);
  if (tokens === wholeTokens && step.samplesLeft === 0) tokens--;
  if (tokens <= 0) return false;
  tokens = withBlocks(core, slot, computed, tokens);
  if (tokens <= 0) return false;
  step.enter(slot, states.generation[slot]!, computed, tokens, tokens === wholeTokens);
  states.inStep[slot] = step.nextNumber();
  if (reuses(core, slot)) core.connector?.hooks.scheduled(slot, computed, tokens);
  return true;
}

/** Makes the row long enough, by preemption where need be; returns for how many of the tokens it is. */
function withBlocks(core: SchedulerCore, slot: number, computed: number, tokens: number): number {
  while (!grow(core, slot, core.blocksFor(computed + tokens))) {
    if (core.connector?.hooks.giveWay((gone) => release(core, gone)) === true) continue;
    const victim = lastCome(core, slot);
    if (victim === NONE) return growAsFarAsPossible(core, slot, computed, tokens);
    preempt(core, victim);
  }
  return tokens;
}

function growAsFarAsPossible(
  core: SchedulerCore,
  slot: number,
  computed: number,
  tokens: number,
): number {
  const more = Math.floor(core.allocator.freeBlocks() / core.groups);
  grow(core, slot, core.states.blocks[slot]! + more);
  return Math.min(tokens, core.states.blocks[slot]! * core.blockSize - computed);
}

function grow(core: SchedulerCore, slot: number, blocks: number): boolean {
  const before = core.states.blocks[slot]!;
  if (blocks <= before) return true;
  if (!core.rows.grow(slot, blocks)) return false;
  core.promise(slot, core.states.promisedBlocks[slot]! - (blocks - before) * core.groups);
  return true;
}

/**
 * The request that gives its blocks up for `slot`: one that came later and is not part of this step, the last first; NONE
 * when there is none. A request never gives its own blocks up: it keeps them and waits, because the first of the running can
 * always take what it needs from the later ones, from ended loads and from ended saves. So nobody recomputes in vain.
 */
function lastCome(core: SchedulerCore, slot: number): number {
  const { states, step } = core;
  if (states.loaded.tail !== NONE) return states.loaded.tail;
  const number = step.nextNumber();
  let victim = states.running.tail;
  while (victim !== slot && states.inStep[victim] === number)
    victim = states.running.previous(victim);
  return victim === slot ? NONE : victim;
}
