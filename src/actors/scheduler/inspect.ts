import { INSPECTED_MAX, type ActorInspection } from "../step.ts";
import type { SchedulerCore } from "./core.ts";
import { STATE_FREE, STATE_NAMES } from "./request-states.ts";

/** Requests by how long they are in their present state, the longest first: what is stuck comes on top. */
export function inspectScheduler(core: SchedulerCore, nowMs: number): ActorInspection {
  const { states, step } = core;
  const live: number[] = [];
  for (let slot = 0; slot < states.slots; slot++)
    if (states.state[slot] !== STATE_FREE) live.push(slot);
  live.sort((one, other) => states.sinceMs[one]! - states.sinceMs[other]!);
  return {
    counters: { ...core.counters },
    inHand: {
      requests: live.slice(0, INSPECTED_MAX).map((slot) => inspectRequest(core, slot, nowMs)),
      requestsNotListed: Math.max(0, live.length - INSPECTED_MAX),
      step: { inFlight: step.inFlight, tries: step.tries, fence: step.fence },
      loadingBlocks: core.loadingBlocks,
      promisedBlocks: core.promisedBlocks,
      syncLoads: core.syncLoads,
      waitsForFrontEndRoom: core.roomAtMs !== Infinity,
      recovering: core.recovering,
      stopping: core.stopping,
    },
  };
}

function inspectRequest(core: SchedulerCore, slot: number, nowMs: number): object {
  const { states, connector } = core;
  return {
    slot,
    generation: states.generation[slot],
    state: STATE_NAMES[states.state[slot]!],
    inStateMs: Math.round(nowMs - states.sinceMs[slot]!),
    promptTokens: states.promptTokens[slot],
    outputTokens: states.outputTokens[slot],
    computedTokens: states.computedTokens[slot],
    blocks: states.blocks[slot],
    preemptions: states.preemptions[slot],
    inStep: states.inStep[slot],
    hashPending: states.hashPending[slot] === 1,
    /** Waits of the connector for this slot: hashes, lookups, jobs. */
    connectorInFlight: connector === null ? 0 : connector.hooks.inFlight(slot),
  };
}
