import { IN_FLIGHT } from "../../connector/hooks.ts";
import { NONE } from "../../blocks/layout.ts";
import { OVERTAKEN_MAX, PASS_OVER_MAX, type SchedulerCore } from "./core.ts";
import {
  PARKED_FOR_LOAD,
  PARKED_FOR_LOOKUP,
  STATE_PARKED_LOAD,
  STATE_PARKED_LOOKUP,
  STATE_RUNNING,
} from "./request-states.ts";
import { localHits, park, release, reuses } from "./requests.ts";
import { scheduleNext, setComputed, stepHasRoom } from "./sequences.ts";

/**
 * Admission: which waiting requests get blocks, and whether they load or compute.
 *
 * It cannot deadlock when loads hold blocks: a request is admitted only if the blocks of all its known tokens and one more
 * fit beside what admitted requests were promised, so every admitted request can finish its prefill; loads in flight hold a
 * bounded share; and when nothing is admitted, all blocks but pinned ones are free, and pins end.
 */
const ADMITTED = 0;
/** Out of the queue, parked: go on with the next. */
const PARKED = 1;
/** Its load has to wait for other loads: later requests may be looked at. */
const BLOCKED = 2;
/** Nothing behind it may be admitted either. */
const STOP = 3;

/** What was found out about the request that is looked at; reused. */
const found = { local: 0, external: 0, hits: 0 };

/**
 * Admits from the head of the waiting queue: loads at any time, requests that compute while the step being filled has room.
 */
export function admit(core: SchedulerCore): void {
  const { waiting } = core.states;
  core.admissionDue = false;
  let blocked = 0;
  for (let slot = waiting.head; slot !== NONE;) {
    const next = waiting.next(slot);
    const verdict = consider(core, slot);
    if (verdict === STOP) return;
    if (verdict === BLOCKED && ++blocked > PASS_OVER_MAX) return;
    if (verdict === ADMITTED && blocked > 0) countOvertaken(core, blocked);
    slot = next;
  }
}

/** The blocked requests are at the head of the queue: whatever came between them was admitted or parked. */
function countOvertaken(core: SchedulerCore, blocked: number): void {
  const { states } = core;
  let slot = states.waiting.head;
  for (let count = 0; count < blocked && slot !== NONE; count++) {
    states.overtaken[slot] = states.overtaken[slot]! + 1;
    slot = states.waiting.next(slot);
  }
}

function consider(core: SchedulerCore, slot: number): number {
  if (!lookUp(core, slot)) {
    core.states.waiting.remove(slot);
    park(core, slot, STATE_PARKED_LOOKUP, PARKED_FOR_LOOKUP);
    return PARKED;
  }
  while (!fits(core, slot))
    if (core.connector?.hooks.giveWay((gone) => release(core, gone)) !== true) return STOP;
  if (found.external > 0) {
    const verdict = loadVerdict(core, slot);
    if (verdict === BLOCKED) return core.states.overtaken[slot]! < OVERTAKEN_MAX ? BLOCKED : STOP;
    if (verdict === ADMITTED) return startLoad(core, slot);
    core.counters.loadsRefused++;
    found.external = 0;
  }
  return startCompute(core, slot);
}

/** Fills `found`. False: the pool has not answered yet. */
function lookUp(core: SchedulerCore, slot: number): boolean {
  const { connector } = core;
  found.hits = localHits(core, slot);
  found.local = found.hits * core.blockSize;
  found.external = 0;
  if (connector === null || !reuses(core, slot)) return true;
  core.metadataOpen = true;
  const matched = connector.hooks.matchedTokens(slot, found.local);
  if (matched === IN_FLIGHT) return false;
  found.external = Math.max(0, matched);
  return true;
}

function fits(core: SchedulerCore, slot: number): boolean {
  const fresh = (core.targetBlocks(slot) - found.hits) * core.groups;
  return fresh + core.rows.hitsFree <= core.allocator.freeBlocks() - core.promisedBlocks;
}

/** ADMITTED; BLOCKED: other loads must end first; STOP: no load of it, compute. */
function loadVerdict(core: SchedulerCore, slot: number): number {
  const { states } = core;
  // More than the request can hold would be a hit past its end: nothing that may be loaded.
  if (found.local + found.external > states.knownTokens(slot)) return STOP;
  if (states.parkedLoad.size === 0) return ADMITTED;
  return core.loadingBlocks + loadBlocks(core) <= core.loadBlocksMax ? ADMITTED : BLOCKED;
}

function loadBlocks(core: SchedulerCore): number {
  return (core.blocksFor(found.local + found.external) - found.hits) * core.groups;
}

/** Opens the row with the local hits and `blocks` in all; promises the rest. False: nothing changed. */
function takeBlocks(core: SchedulerCore, slot: number, blocks: number): boolean {
  if (!core.rows.open(slot, found.hits)) return false;
  if (!core.rows.grow(slot, blocks)) {
    core.rows.close(slot);
    return false;
  }
  core.promise(slot, (core.targetBlocks(slot) - blocks) * core.groups);
  return true;
}

function startLoad(core: SchedulerCore, slot: number): number {
  const { states, connector } = core;
  const tokens = found.local + found.external;
  const fills = loadBlocks(core);
  if (!takeBlocks(core, slot, core.blocksFor(tokens))) return STOP;
  countAdmission(core, slot);
  states.waiting.remove(slot);
  setComputed(core, slot, found.local);
  states.cachedBlocks[slot] = found.hits;
  states.loadTokens[slot] = tokens;
  states.loadBlocks[slot] = fills;
  core.loadingBlocks += fills;
  core.counters.loadsAdmitted++;
  core.metadataOpen = true;
  if (!core.options.loadAsync) core.syncLoads++;
  connector?.hooks.blocksAllocated(slot, found.external);
  park(core, slot, STATE_PARKED_LOAD, PARKED_FOR_LOAD);
  return ADMITTED;
}

function startCompute(core: SchedulerCore, slot: number): number {
  const { states, connector } = core;
  if (states.running.size + states.loaded.size >= core.options.sequencesMax) return STOP;
  if (!stepHasRoom(core) || !takeBlocks(core, slot, found.hits)) return STOP;
  states.waiting.remove(slot);
  setComputed(core, slot, found.local);
  states.cachedBlocks[slot] = found.hits;
  countAdmission(core, slot);
  states.neverAdmitted[slot] = 0;
  states.running.pushBack(slot);
  core.setState(slot, STATE_RUNNING);
  if (reuses(core, slot)) connector?.hooks.blocksAllocated(slot, 0);
  scheduleNext(core, slot);
  core.trace("requestAdmitted", slot, found.local, states.blocks[slot]!);
  return ADMITTED;
}

function countAdmission(core: SchedulerCore, slot: number): void {
  const { states, counters, connector } = core;
  const known = states.knownTokens(slot);
  states.overtaken[slot] = 0;
  states.first[slot] = 0;
  if (states.neverAdmitted[slot] === 1) states.localTokens[slot] = found.local;
  if (!reuses(core, slot)) return;
  counters.prefixCacheQueries += known;
  counters.prefixCacheHits += found.local;
  counters.tokensFromLocal += found.local;
  if (found.hits > 0) core.trace("localHit", slot, found.local, found.hits);
  if (connector === null) return;
  counters.externalPrefixCacheQueries += known - found.local;
  counters.externalPrefixCacheHits += found.external;
}
