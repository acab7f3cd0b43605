/**
 * Goal: a scheduler side that dies loses no block and no job: its successor on the same tables pins what live jobs name and
 * waits for their reports. Method: a second pair of sides over the first one's tables.
 */
import { expect, test } from "vitest";
import {
  epochState,
  JOB_ANSWERED_WORD,
  JOB_STATE_DONE,
  JOB_STATE_TAKEN,
  JOB_STATE_WORD,
  NONE,
} from "../../src/blocks/layout.ts";
import { OUTCOME_HIT } from "../../src/actors/messages.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import { IN_FLIGHT } from "../../src/connector/hooks.ts";
import { jobChains } from "../../src/connector/jobs.ts";
import { diesBefore } from "./atomic-death.ts";
import { ConnectorBench } from "./connector-bench.ts";
import { apply, loadDone, saveDone, startLoad, startSave } from "./connector-steps.ts";

/** The whole life of a load and a save. True: the side died before atomic operation number `at`. */
function livesWithDeathAt(at: number): boolean {
  const dead = new ConnectorBench();
  const [loading, saving] = [dead.addRequest(100), dead.addRequest(100)];
  const died = diesBefore(at, () => {
    const load = startLoad(dead, loading, 32);
    const save = startSave(dead, saving, 64);
    loadDone(dead, load, OUTCOME_HIT);
    saveDone(dead, save);
    apply(dead);
  });
  const blockPages = new PageAllocator(dead.tables.blocks);
  blockPages.adopt(jobChains(dead.tables));
  const next = new ConnectorBench({ tables: dead.tables, blockPages });
  next.sides.adopt();
  const left = [...next.take("load"), ...next.take("save")];
  for (const { kind, job } of left) {
    if (kind === "load") loadDone(next, job, OUTCOME_HIT);
    else saveDone(next, job);
  }
  apply(next);
  expect([next.hooks.liveJobs(), next.hooks.quarantinedBlocks()]).toEqual([0, 0]);
  expect(next.pinnedBlocks()).toEqual([]);
  expect(blockPages.usedPages()).toBe(0);
  return died;
}

test("a side that dies at any atomic operation of a job's life leaves nothing that its successor dies of", () => {
  let operations = 0;
  while (livesWithDeathAt(operations)) operations++;
  expect(operations).toBeGreaterThanOrEqual(10);
});

test("live jobs are adopted with their pins; taken ones are waited for, untaken ones announced again, done ones closed", () => {
  const dead = new ConnectorBench();
  const loading = dead.addRequest(100);
  const saving = dead.addRequest(100);
  const load = startLoad(dead, loading, 32);
  const save = startSave(dead, saving, 64);
  const done = startSave(dead, saving, 32, 64);
  const state = (job: number, value: number): void => {
    Atomics.store(dead.tables.jobs, dead.tables.job(job) + JOB_STATE_WORD, epochState(1, value));
  };
  state(save, JOB_STATE_TAKEN);
  Atomics.store(dead.tables.jobs, dead.tables.job(done) + JOB_ANSWERED_WORD, 1);
  state(done, JOB_STATE_DONE);
  const attempt = dead.attempt(loading);

  const blockPages = new PageAllocator(dead.tables.blocks);
  blockPages.adopt(jobChains(dead.tables));
  const next = new ConnectorBench({ tables: dead.tables, blockPages });
  next.sides.adopt();
  expect(next.hooks.liveJobs()).toBe(3);
  expect(next.pinnedBlocks()).toEqual(dead.pinnedBlocks());
  expect(next.hooks.quarantinedBlocks()).toBe(6);
  expect(next.take("load").map((message) => message.job)).toEqual([load]);
  expect(next.take("save")).toEqual([]);
  // Attempts go on, so the dead one's answers are not taken for ours.
  const again = next.addRequest(100, { slot: 5 });
  expect(next.hooks.matchedTokens(again, 0)).toBe(IN_FLIGHT);
  expect(next.attempt(loading)).toBe(attempt);

  expect(apply(next).doneSaves[0]).toBe(done);
  expect(saveDone(next, done)).toBe(false);
  expect(saveDone(next, save)).toBe(true);
  expect(loadDone(next, load, OUTCOME_HIT)).toBe(true);
  expect(apply(next).doneLoadCount).toBe(1);
  expect(next.hooks.jobSlot(load)).toBe(NONE);
  expect(next.pinnedBlocks()).toEqual([]);
  expect([next.hooks.liveJobs(), next.hooks.quarantinedBlocks()]).toEqual([0, 0]);
  expect(blockPages.usedPages()).toBe(0);
});
