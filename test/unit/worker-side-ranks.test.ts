/**
 * Goal: of a job of several ranks, no rank is waited for in vain when its actor dies between taking that rank's message out of its
 * mailbox and noting it, although the successor takes another rank's. Method: a scheduler side with two ranks on real tables; the
 * test plays the actors, whose state and answer words say what the dead one got to.
 */
import { expect, test } from "vitest";
import {
  epochState,
  JOB_ANSWERED_WORD,
  JOB_STATE_DONE,
  JOB_STATE_TAKEN,
  JOB_STATE_WORD,
} from "../../src/blocks/layout.ts";
import { ACTOR_LOADER, ACTOR_SAVER, OUTCOME_HIT } from "../../src/actors/messages.ts";
import { ConnectorBench } from "./connector-bench.ts";
import { apply, loadDone, saveDone, startLoad, startSave } from "./connector-steps.ts";

const RANKS = 2;

function setState(bench: ConnectorBench, job: number, state: number): void {
  Atomics.store(bench.tables.jobs, bench.tables.job(job) + JOB_STATE_WORD, epochState(2, state));
}

test.each([
  ["save", ACTOR_SAVER],
  ["load", ACTOR_LOADER],
] as const)("each rank's %s is sent again to a successor that took the other's", (kind, actor) => {
  const bench = new ConnectorBench({ ranks: RANKS });
  const slot = bench.addRequest(100);
  const job = kind === "save" ? startSave(bench, slot, 64) : startLoad(bench, slot, 32);
  expect(bench.take(kind).map(({ worker }) => worker)).toEqual([0, 1]);
  setState(bench, job, JOB_STATE_TAKEN);

  bench.sides.receive({ kind: "actorRestarted", actor, epoch: 2 });
  expect(bench.take(kind).map(({ worker }) => worker)).toEqual([0, 1]);

  Atomics.store(bench.tables.jobs, bench.tables.job(job) + JOB_ANSWERED_WORD, 3);
  setState(bench, job, JOB_STATE_DONE);
  for (let worker = 0; worker < RANKS; worker++) {
    if (kind === "save") expect(saveDone(bench, job, OUTCOME_HIT, worker)).toBe(true);
    else expect(loadDone(bench, job, OUTCOME_HIT, undefined, worker)).toBe(true);
  }
  apply(bench);
  expect(bench.hooks.liveJobs()).toBe(0);
});

test("a job of one rank is not sent again when the successor has it", () => {
  const bench = new ConnectorBench();
  const job = startSave(bench, bench.addRequest(100), 64);
  bench.take("save");
  setState(bench, job, JOB_STATE_TAKEN);
  bench.sides.receive({ kind: "actorRestarted", actor: ACTOR_SAVER, epoch: 2 });
  expect(bench.take("save")).toEqual([]);
});
