/** Short forms of a step's calls for the connector's tests: the test plays scheduler, loader and saver. */
import { expect } from "vitest";
import { JOB_TICKET, NONE } from "../../src/blocks/layout.ts";
import { OUTCOME_HIT } from "../../src/actors/messages.ts";
import { IN_FLIGHT } from "../../src/connector/hooks.ts";
import type { ConnectorOutput } from "../../src/connector/hooks.ts";
import type { ConnectorBench } from "./connector-bench.ts";

export const BLOCKS = [10, 11, 12, 13, 14, 15, 16];

/** Looks up, takes the offer, closes the step and announces the load; returns its job. */
export function startLoad(bench: ConnectorBench, slot: number, hit: number, local = 0): number {
  expect(bench.hooks.matchedTokens(slot, local)).toBe(IN_FLIGHT);
  bench.answerHit(slot, hit);
  expect(bench.hooks.matchedTokens(slot, local)).toBe(hit - local);
  bench.setRow(slot, BLOCKS.slice(0, hit / 16));
  bench.hooks.blocksAllocated(slot, hit - local);
  const metadata = bench.hooks.buildMetadata();
  expect(metadata.loadCount).toBe(1);
  bench.sides.startLoads(metadata);
  return metadata.loads[0]!;
}

/** Schedules a whole prompt of `tokens` and returns its save job (NONE: none was made). */
export function startSave(bench: ConnectorBench, slot: number, tokens: number, from = 0): number {
  bench.setRow(slot, BLOCKS.slice(0, Math.ceil((from + tokens) / 16)));
  bench.hooks.scheduled(slot, from, tokens);
  const metadata = bench.hooks.buildMetadata();
  bench.sides.startSaves(metadata);
  return metadata.saveCount === 0 ? NONE : metadata.saves[0]!;
}

/** Which use of the job's record is going on: reports carry it. */
export function ticketOf(bench: ConnectorBench, job: number): number {
  return bench.tables.jobs[bench.tables.job(job) + JOB_TICKET] ?? NONE;
}

export function loadDone(
  bench: ConnectorBench,
  job: number,
  outcome: number,
  badChunk = NONE,
  worker = 0,
): boolean {
  const counts = { memoryBlocks: 0, diskBlocks: 0, kibibytes: 0, microseconds: 0 };
  const ticket = ticketOf(bench, job);
  return bench.sides.receive({
    kind: "loadDone",
    job,
    ticket,
    worker,
    outcome,
    badChunk,
    ...counts,
  });
}
export function saveDone(
  bench: ConnectorBench,
  job: number,
  outcome = OUTCOME_HIT,
  worker = 0,
): boolean {
  const counts = {
    writtenBlocks: 0,
    presentBlocks: 0,
    failedBlocks: 0,
    kibibytes: 0,
    microseconds: 0,
  };
  const ticket = ticketOf(bench, job);
  return bench.sides.receive({ kind: "saveDone", job, ticket, worker, outcome, ...counts });
}
export function apply(bench: ConnectorBench): ConnectorOutput {
  const output = bench.sides.collect();
  bench.hooks.applyOutput(output);
  return output;
}
