import {
  NONE,
  REQUEST_GENERATION,
  REQUEST_LIVE_WORD,
  REQUEST_OUTPUT_TOKENS_WORD,
  REQUEST_STATUS,
} from "../../blocks/layout.ts";
import { ACTOR_LOOKUP, ACTOR_MODEL, type ActorGone, type ActorRestarted } from "../messages.ts";
import { finishReason } from "./apply-step.ts";
import type { SchedulerCore } from "./core.ts";
import { STATE_DRAINING, STATE_FREE, STATE_RELEASED, stateOfStatus } from "./request-states.ts";
import type { SlotList } from "./slot-list.ts";
import { addRequest, finish, makeReady, release, requestHashes, unpark } from "./requests.ts";

/**
 * A successor of a dead scheduler: every live request waits anew and is recomputed from its prompt and the tokens that the
 * front end has. First of all a fence: until it is answered, the model may still write blocks and read rows for the
 * predecessor, so no row is touched, no job taken over, and nothing allocated.
 */
export function beginRecovery(core: SchedulerCore): void {
  core.recovering = true;
  core.step.sendFence(core.context);
}

/**
 * The model is idle. What came meanwhile and was dropped is in the tables: new requests (live word), aborts (flag), reports
 * of jobs (state word).
 */
export function finishRecovery(core: SchedulerCore): void {
  const { tables, connector } = core;
  core.recovering = false;
  connector?.adopt();
  for (let slot = 0; slot < tables.dimensions.requestSlots; slot++) {
    const record = tables.request(slot);
    // Before the live word: the owner may give the slot to a new request between the two loads. The old generation is known as
    // released then, and the new request's message is still to come; a new generation that is live is whole.
    const generation = Atomics.load(tables.requests, record + REQUEST_GENERATION);
    // Pairs with the owner's store: line 0 of a live record is whole.
    if (Atomics.load(tables.requests, record + REQUEST_LIVE_WORD) === 1)
      recoverRequest(core, slot, generation);
  }
}

function recoverRequest(core: SchedulerCore, slot: number, generation: number): void {
  const { tables, states } = core;
  const record = tables.request(slot);
  const state = stateOfStatus(tables.requests[record + REQUEST_STATUS]!, generation);
  // Released, and the owner has yet to see it: a new request of this slot has a new generation.
  if (state === STATE_RELEASED) return;
  if (state === STATE_DRAINING) {
    states.reset(slot);
    states.generation[slot] = generation;
    states.state[slot] = STATE_DRAINING;
    states.draining.pushBack(slot);
    return release(core, slot);
  }
  const known = state !== STATE_FREE;
  const outputTokens = known ? tables.requests[record + REQUEST_OUTPUT_TOKENS_WORD]! : 0;
  addRequest(core, slot, { outputTokens });
  if (outputTokens === 0 || states.state[slot] === STATE_FREE) return;
  if (states.state[slot] === STATE_DRAINING) return;
  const reason = finishReason(core, slot);
  if (reason !== 0) finish(core, slot, reason);
}

/** Another actor runs anew: what was asked of its predecessor may be lost. */
export function takeRestart(core: SchedulerCore, message: ActorRestarted): void {
  const { states, connector, step, context } = core;
  connector?.receive(message);
  if (message.actor === ACTOR_MODEL && step.busy()) step.sendFence(context);
  if (message.actor !== ACTOR_LOOKUP) return;
  if (connector === null) {
    for (let slot = 0; slot < states.slots; slot++)
      if (states.hashPending[slot] === 1) requestHashes(core, slot);
  }
  // An answer may be there whose message was lost: look at everyone once.
  resumeAll(core, states.parkedLookup);
  releaseDrained(core);
}

/**
 * Another actor was given up. With lookup, loader or saver nothing is waited for any more and requests compute; without the
 * model nothing ends here, and the front end says so to its clients.
 */
export function takeGone(core: SchedulerCore, message: ActorGone): void {
  const { states, connector } = core;
  connector?.receive(message);
  if (message.actor === ACTOR_LOOKUP) {
    core.lookupGone = true;
    states.hashPending.fill(0);
    resumeAll(core, states.parkedHashes);
  }
  resumeAll(core, states.parkedLookup);
  releaseDrained(core);
}

function resumeAll(core: SchedulerCore, parked: SlotList): void {
  while (parked.head !== NONE) {
    const slot = parked.head;
    unpark(core, slot);
    makeReady(core, slot);
  }
}

function releaseDrained(core: SchedulerCore): void {
  const { states } = core;
  for (let slot = states.draining.head; slot !== NONE;) {
    const next = states.draining.next(slot);
    release(core, slot);
    slot = next;
  }
}
