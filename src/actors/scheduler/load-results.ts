import { JOB_SLOT, NONE } from "../../blocks/layout.ts";
import type { ConnectorOutput } from "../../connector/hooks.ts";
import { FINISH_ERROR, OUTCOME_HIT } from "../messages.ts";
import { cacheFullBlocks } from "./apply-step.ts";
import type { SchedulerCore } from "./core.ts";
import { STATE_LOADED, STATE_PARKED_LOAD } from "./request-states.ts";
import { finish, leaveLoad, release, unpark } from "./requests.ts";
import { setComputed } from "./sequences.ts";

/** Acts on what the worker sides report: loads that ended give their requests back, jobs that ended free slots. */
export function takeConnectorOutput(core: SchedulerCore): void {
  const { connector } = core;
  if (connector === null) return;
  const output = connector.collect();
  if (output.doneLoadCount + output.doneSaveCount === 0) return;
  connector.hooks.applyOutput(output);
  core.admissionDue = true;
  for (let index = 0; index < output.doneLoadCount; index++) {
    const job = output.doneLoads[index]!;
    if (job === NONE) continue;
    const slot = core.tables.jobs[core.tables.job(job) + JOB_SLOT]!;
    if (core.states.state[slot] === STATE_PARKED_LOAD && core.states.loadJob[slot] === job)
      endLoad(core, slot, output, index);
    else release(core, slot);
  }
  for (let index = 0; index < output.doneSaveCount; index++) {
    const job = output.doneSaves[index]!;
    if (job !== NONE) release(core, core.tables.jobs[core.tables.job(job) + JOB_SLOT]!);
  }
}

function endLoad(core: SchedulerCore, slot: number, output: ConnectorOutput, index: number): void {
  const { states } = core;
  const bad = output.badChunks[index]!;
  const failed = bad !== NONE || output.loadOutcomes[index] !== OUTCOME_HIT;
  // The local part of the request is there in any case.
  const local = states.computedTokens[slot]!;
  const arrived = bad === NONE ? (failed ? 0 : states.loadTokens[slot]!) : bad * core.blockSize;
  const there = Math.max(local, Math.min(arrived, states.loadTokens[slot]!));
  unpark(core, slot);
  leaveLoad(core, slot);
  if (failed) core.counters.loadsFailed++;
  core.counters.tokensFromPool += there - local;
  if (states.neverAdmitted[slot] === 1) states.poolTokens[slot] = there - local;
  states.neverAdmitted[slot] = 0;
  // The model has to compute one token at least, for its logits.
  setComputed(core, slot, Math.min(there, states.knownTokens(slot) - 1));
  cacheFullBlocks(core, slot);
  core.setState(slot, STATE_LOADED);
  states.loaded.pushBack(slot);
  if (failed && core.options.loadFailurePolicy === "fail") finish(core, slot, FINISH_ERROR);
}
