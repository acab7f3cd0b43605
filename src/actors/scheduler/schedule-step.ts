import { NONE } from "../../blocks/layout.ts";
import { ACTOR_FRONT_END } from "../messages.ts";
import { admit } from "./admission.ts";
import { FRONT_END_RESERVE, ROOM_RETRY_MS, type SchedulerCore } from "./core.ts";
import { STATE_RUNNING } from "./request-states.ts";
import { scheduleNext, tokensDue } from "./sequences.ts";

/**
 * One round of scheduling: fills the next step when none is in flight, admits requests, closes the connector's step, starts
 * its loads, and hands the step to the model. Its cost follows the running requests, not the waiting or parked ones.
 */
export function schedule(core: SchedulerCore): void {
  const { step, context } = core;
  core.roomAtMs = Infinity;
  if (step.fence !== 0) return;
  step.sequences = 0;
  if (step.inFlight === 0 && core.syncLoads === 0) fill(core);
  else if (core.admissionDue) admit(core);
  const { sequences } = step;
  closeConnectorStep(core, sequences);
  if (sequences === 0) return;
  context.trace.record("stepScheduled", NONE, NONE, step.nextNumber(), sequences);
  step.send(context);
}

/** As in vLLM: requests that generate come first, then chunks of prompts, then new requests. */
function fill(core: SchedulerCore): void {
  const { states, step } = core;
  promoteLoaded(core);
  if (states.running.size === 0 && states.waiting.size === 0) return;
  step.begin(core.options.tokensPerStepMax, samplesMax(core));
  const preemptions = core.counters.preemptions;
  scheduleRunning(core, true);
  scheduleRunning(core, false);
  // Whoever was preempted just now gave its blocks to another: giving them to a third would start a circle.
  if (core.counters.preemptions === preemptions) admit(core);
  step.end();
}

/** Requests whose load is over hold blocks: they go before all that wait. */
function promoteLoaded(core: SchedulerCore): void {
  const { states } = core;
  while (states.loaded.head !== NONE && states.running.size < core.options.sequencesMax) {
    const slot = states.loaded.head;
    states.loaded.remove(slot);
    states.running.pushBack(slot);
    core.setState(slot, STATE_RUNNING);
  }
}

function scheduleRunning(core: SchedulerCore, decodes: boolean): void {
  const { running } = core.states;
  for (
    let slot = running.head;
    slot !== NONE && core.step.tokensLeft > 0;
    slot = running.next(slot)
  ) {
    // Only requests behind this one are ever preempted for it, so the walk stays valid.
    if ((tokensDue(core, slot) === 1) === decodes) scheduleNext(core, slot);
  }
}

/**
 * Sequences that may be sampled: each sends a token, and each request its end and its release, to a front end that may lag.
 * Without room for one token the step is left out and tried again soon.
 */
function samplesMax(core: SchedulerCore): number {
  const free = core.context.room(ACTOR_FRONT_END) - FRONT_END_RESERVE;
  // For all slots, not the live ones alone: requests that come while the front end lags may end before it has read.
  const room = free - 2 * core.states.slots;
  if (room < core.options.sequencesMax) core.roomAtMs = core.context.nowMs() + ROOM_RETRY_MS;
  return Math.max(0, room);
}

/** Offers end with the step, loads start, saves wait until the step that computes their blocks is over. */
function closeConnectorStep(core: SchedulerCore, sequences: number): void {
  const { connector, step } = core;
  if (connector === null || (!core.metadataOpen && sequences === 0)) return;
  core.metadataOpen = false;
  const metadata = connector.hooks.buildMetadata();
  for (let index = 0; index < metadata.loadCount; index++) {
    const slot = connector.hooks.jobSlot(metadata.loads[index]!);
    if (slot !== NONE) core.states.loadJob[slot] = metadata.loads[index]!;
  }
  if (metadata.loadCount > 0) connector.startLoads(metadata);
  if (metadata.saveCount === 0) return;
  if (sequences > 0 || step.inFlight !== 0) step.hold(metadata);
  else connector.startSaves(metadata);
}
