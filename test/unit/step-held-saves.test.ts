/**
 * Goal: a step that outlasts its saves' deadline neither starts nor cancels the jobs that use their records by then. (A load that
 * was cancelled so lost its pins while the engine wrote into its blocks.)
 * Method: saves are held as the scheduler holds them; the connector's writes to their records are made by hand.
 */
import { expect, test } from "vitest";
import { JOB_LIVE_WORD, JOB_TICKET } from "../../src/blocks/layout.ts";
import { StepState } from "../../src/actors/scheduler/step-state.ts";
import { createConnectorMetadata } from "../../src/connector/outputs.ts";
import { smallTables } from "./small-tables.ts";

const JOB_SLOTS = 8;

function world() {
  const tables = smallTables({
    requestSlots: 2,
    jobSlots: JOB_SLOTS,
    blockCount: 9,
    stepSequencesMax: 2,
  });
  const metadata = createConnectorMetadata(JOB_SLOTS);
  const use = (job: number, live: number): void => {
    const at = tables.job(job);
    tables.jobs[at + JOB_TICKET] = tables.jobs[at + JOB_TICKET]! + live;
    // As the connector's scheduler side publishes and frees a record; pairs with the load in HeldSaves.
    Atomics.store(tables.jobs, at + JOB_LIVE_WORD, live);
  };
  const step = new StepState(tables);
  const hold = (jobs: readonly number[]): void => {
    jobs.forEach((job, index) => {
      use(job, 1);
      metadata.saves[index] = job;
    });
    metadata.saveCount = jobs.length;
    step.hold(metadata);
  };
  return { step, hold, use };
}

test("saves whose records are as they were are started", () => {
  const { step, hold } = world();
  hold([3, 5]);
  const saves = step.takeSaves();
  expect([...(saves?.saves.subarray(0, saves.saveCount) ?? [])]).toEqual([3, 5]);
  expect(step.takeSaves()).toBeNull();
});

test("a released save and one whose record is another job's are passed over, both ways", () => {
  for (const cancelled of [false, true]) {
    const { step, hold, use } = world();
    hold([1, 2, 3]);
    use(1, 0);
    use(2, 0);
    use(2, 1);
    if (cancelled) {
      const output = step.takeSavesAsCancelled();
      expect([...(output?.doneSaves.subarray(0, output.doneSaveCount) ?? [])]).toEqual([3]);
    } else {
      const saves = step.takeSaves();
      expect([...(saves?.saves.subarray(0, saves.saveCount) ?? [])]).toEqual([3]);
    }
  }
});
