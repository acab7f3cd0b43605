/**
 * Goal: a save that had to be left out is made when there is room for it, also when its request has ended by then: of what was
 * computed and nothing else, with its blocks held meanwhile, and not past a deadline, a reset or the need of others.
 * Method: both sides on real tables, the test as scheduler and saver.
 */
import { describe, expect, test } from "vitest";
import { NONE } from "../../src/blocks/layout.ts";
import {
  MEMBERSHIP_CLOSED,
  MEMBERSHIP_OPEN,
  MEMBERSHIP_PAUSED,
  MEMBERSHIP_UNKNOWN,
} from "../../src/connector/membership.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { ACTOR_SAVER } from "../../src/actors/messages.ts";
import { ConnectorBench, type BenchOptions } from "./connector-bench.ts";
import { apply, BLOCKS, saveDone, startSave } from "./connector-steps.ts";

/** One record is for saves: the first request's save has it, and the second one's is left out. */
function full(options: BenchOptions = {}): { bench: ConnectorBench; job: number; slot: number } {
  const bench = new ConnectorBench({
    ...options,
    dimensions: { jobSlots: 2, ...options.dimensions },
  });
  const job = startSave(bench, bench.addRequest(64), 64);
  expect(job).not.toBe(NONE);
  const slot = bench.addRequest(80);
  bench.setRow(slot, [20, 21, 22, 23, 24]);
  return { bench, job, slot };
}
function settle(bench: ConnectorBench): { jobs: number[]; ended: number[] } {
  const ended: number[] = [];
  const metadata = bench.hooks.settleSaves((slot) => ended.push(slot));
  if (metadata === null) return { jobs: [], ended };
  bench.sides.startSaves(metadata);
  return { jobs: [...metadata.saves.subarray(0, metadata.saveCount)], ended };
}
const OWED = [20, 21, 22, 23, 24];

describe("a request that ends while its save is left out", () => {
  test("is saved when there is room; blocks and slot are held until then", () => {
    const { bench, job, slot } = full();
    bench.hooks.scheduled(slot, 0, 80);
    expect(bench.hooks.buildMetadata().saveCount).toBe(0);
    expect(bench.hooks.requestFinished(slot, 80, true)).toBe(true);
    expect(bench.pinnedBlocks()).toEqual([...BLOCKS.slice(0, 4), ...OWED]);
    expect([bench.hooks.quarantinedBlocks(), bench.hooks.inFlight(slot)]).toEqual([5, 1]);
    expect(settle(bench)).toEqual({ jobs: [], ended: [] });
    saveDone(bench, job);
    apply(bench);
    const { jobs, ended } = settle(bench);
    const [owed = NONE] = jobs;
    expect([jobs.length, ended, bench.chunks(owed)]).toEqual([1, [slot], { first: 0, count: 5 }]);
    expect(bench.savedRow(owed)).toEqual(OWED);
    expect(bench.pinnedBlocks()).toEqual(OWED);
    expect(bench.take("save").at(-1)).toMatchObject({ job: owed });
    saveDone(bench, owed);
    apply(bench);
    expect([bench.pinnedBlocks(), bench.hooks.quarantinedBlocks()]).toEqual([[], 0]);
    expect(bench.hooks.inFlight(slot)).toBe(0);
    expect(bench.hooks.counters).toMatchObject({ savesAfterEnd: 1, lostSaves: 0 });
    expect(bench.blockPages.freePages()).toBe(
      new ConnectorBench({ dimensions: { jobSlots: 2 } }).blockPages.freePages() - 1,
    );
  });

  test("only as far as it was computed", () => {
    const { bench, job, slot } = full();
    bench.hooks.scheduled(slot, 0, 40);
    bench.hooks.buildMetadata();
    bench.hooks.scheduled(slot, 40, 40);
    bench.hooks.buildMetadata();
    // The second step failed.
    expect(bench.hooks.requestFinished(slot, 40, true)).toBe(true);
    saveDone(bench, job);
    apply(bench);
    const [owed = NONE] = settle(bench).jobs;
    expect(bench.chunks(owed)).toEqual({ first: 0, count: 2 });
  });

  test("of a loop that does not say how far: what the steps have computed that ran, none that was given up", () => {
    const cases = [
      [true, true, 5],
      [true, false, 2],
      [false, false, 0],
    ] as const;
    for (const [first, second, chunks] of cases) {
      const { bench, job, slot } = full();
      for (const [step, ran] of [first, second].entries()) {
        bench.hooks.scheduled(slot, 40 * step, 40);
        const metadata = bench.hooks.buildMetadata();
        if (ran) bench.sides.startSaves(metadata);
      }
      expect(bench.hooks.requestFinished(slot, undefined, true)).toBe(chunks > 0);
      saveDone(bench, job);
      apply(bench);
      const made = settle(bench).jobs.map((each) => bench.chunks(each).count);
      expect(made).toEqual(chunks === 0 ? [] : [chunks]);
    }
  });

  test("a loop that has freed the blocks already loses it, and that is counted", () => {
    const { bench, slot } = full();
    bench.hooks.scheduled(slot, 0, 80);
    bench.sides.startSaves(bench.hooks.buildMetadata());
    expect(bench.hooks.requestFinished(slot)).toBe(false);
    expect(bench.hooks.counters.lostSaves).toBe(1);
    expect(bench.pinnedBlocks()).toEqual(BLOCKS.slice(0, 4));
  });

  test("takes no record that a load was offered", () => {
    const bench = new ConnectorBench({ dimensions: { jobSlots: 3 } });
    const jobs = [0, 1].map(() => startSave(bench, bench.addRequest(64), 64));
    const slot = bench.addRequest(80);
    bench.setRow(slot, OWED);
    bench.hooks.scheduled(slot, 0, 80);
    bench.sides.startSaves(bench.hooks.buildMetadata());
    const loads = [bench.addRequest(64), bench.addRequest(64)];
    expect(bench.hooks.requestFinished(slot, 80, true)).toBe(true);
    saveDone(bench, jobs[0]!);
    apply(bench);
    for (const each of loads) {
      bench.hooks.matchedTokens(each, 0);
      bench.answerHit(each, 32);
      expect(bench.hooks.matchedTokens(each, 0)).toBe(32);
    }
    expect(settle(bench).jobs).toEqual([]);
    for (const each of loads) {
      bench.setRow(each, [60 + 2 * each, 61 + 2 * each]);
      bench.hooks.blocksAllocated(each, 32);
    }
    expect(bench.hooks.buildMetadata().loadCount).toBe(2);
  });

  test("waits for its hashes", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(64, { hash: false });
    expect(startSave(bench, slot, 64)).toBe(NONE);
    expect(bench.hooks.requestFinished(slot, 64, true)).toBe(true);
    expect(settle(bench).jobs).toEqual([]);
    bench.answerHash(slot);
    expect(settle(bench).jobs).toHaveLength(1);
  });

  test("keeps nothing when nothing is due, when it was preempted, or when it reuses nothing", () => {
    const { bench, slot } = full();
    expect(bench.hooks.requestFinished(slot, 0, true)).toBe(false);
    const again = bench.addRequest(80);
    bench.setRow(again, [30, 31, 32, 33, 34]);
    bench.hooks.scheduled(again, 0, 80);
    bench.hooks.buildMetadata();
    bench.hooks.preempted(again);
    expect(bench.hooks.requestFinished(again, 0, true)).toBe(false);
    expect(bench.pinnedBlocks()).toEqual(BLOCKS.slice(0, 4));
  });
});

describe("an owed save ends without a job", () => {
  const owing = (options: BenchOptions = {}): { bench: ConnectorBench; slot: number } => {
    const { bench, slot } = full(options);
    bench.hooks.scheduled(slot, 0, 80);
    bench.hooks.buildMetadata();
    expect(bench.hooks.requestFinished(slot, 80, true)).toBe(true);
    return { bench, slot };
  };
  const lost = (bench: ConnectorBench, slot: number): void => {
    expect(bench.pinnedBlocks()).toEqual(BLOCKS.slice(0, 4));
    expect([bench.hooks.inFlight(slot), bench.hooks.quarantinedBlocks()]).toEqual([0, 0]);
    expect(bench.hooks.counters).toMatchObject({ savesAfterEnd: 0, lostSaves: 1 });
  };

  test("at its deadline", () => {
    const { bench, slot } = owing();
    expect(bench.hooks.nextDeadlineMs()).toBe(60_000);
    bench.nowMs = 60_000;
    expect(settle(bench)).toEqual({ jobs: [], ended: [slot] });
    lost(bench, slot);
  });

  test("when the pool is reset, by this loop or by another", () => {
    const own = owing();
    own.bench.hooks.gate.pause();
    own.bench.hooks.gate.resume();
    expect(settle(own.bench).ended).toEqual([own.slot]);
    lost(own.bench, own.slot);
    let membership = MEMBERSHIP_OPEN;
    const other = owing({ readMembership: () => membership });
    membership = MEMBERSHIP_PAUSED;
    expect(settle(other.bench).ended).toEqual([other.slot]);
    lost(other.bench, other.slot);
  });

  test.each([
    ["is closed for this member", MEMBERSHIP_CLOSED],
    [
      "is not open, and nobody knows for how long: slots and blocks are others' meanwhile",
      MEMBERSHIP_UNKNOWN,
    ],
  ])("when the pool %s", (_, state) => {
    let membership = MEMBERSHIP_OPEN;
    const { bench, slot } = owing({ readMembership: () => membership });
    membership = state;
    expect(settle(bench).ended).toEqual([slot]);
    lost(bench, slot);
  });

  test("at once when its row is shorter than what is due", () => {
    const { bench, slot } = full();
    bench.hooks.scheduled(slot, 0, 80);
    bench.hooks.buildMetadata();
    bench.setRow(slot, BLOCKS.slice(0, 2));
    expect(bench.hooks.requestFinished(slot, 80, true)).toBe(false);
    lost(bench, slot);
  });

  test("when its load had failed: what was computed on it is not right", () => {
    const { bench, slot } = full();
    bench.hooks.scheduled(slot, 32, 48);
    bench.hooks.buildMetadata();
    bench.hooks.stepRan();
    // Computed anew from the first token, in a step that does not run.
    bench.hooks.scheduled(slot, 0, 80);
    bench.hooks.buildMetadata();
    expect(bench.hooks.requestFinished(slot, undefined, true)).toBe(false);
    expect(settle(bench)).toEqual({ jobs: [], ended: [] });
  });

  test("when others need its blocks and nobody knows when the pool will be open", () => {
    let membership = MEMBERSHIP_OPEN;
    const { bench, slot } = owing({ readMembership: () => membership });
    // Room comes when the other save ends.
    expect(bench.hooks.giveWay(() => expect.unreachable())).toBe(false);
    membership = MEMBERSHIP_UNKNOWN;
    const ended: number[] = [];
    expect(bench.hooks.giveWay((gone) => ended.push(gone))).toBe(true);
    expect(ended).toEqual([slot]);
    lost(bench, slot);
    expect(bench.hooks.giveWay(() => expect.unreachable())).toBe(false);
  });

  test("when the saver was given up", () => {
    const { bench, slot } = owing();
    bench.sides.receive({ kind: "actorGone", actor: ACTOR_SAVER });
    apply(bench);
    expect([bench.pinnedBlocks(), bench.hooks.inFlight(slot)]).toEqual([[], 0]);
    expect(bench.hooks.counters.lostSaves).toBe(1);
  });
});

test("a planned model's ended request is saved with every group and its prompt's tail", () => {
  const rules = hitRules({
    groups: [
      { kind: "full", spanTokens: 32 },
      { kind: "swa", spanTokens: 16, slidingWindow: 20 },
    ],
    hashBlockSize: 16,
  });
  const bench = new ConnectorBench({
    rules,
    dimensions: {
      jobSlots: 2,
      groups: 2,
      groupSpanTokens: [32, 16],
      blockSize: rules.blockTokens,
      hashBlockSize: 16,
    },
  });
  const jobs: number[] = [];
  const slots = [bench.addRequest(64), bench.addRequest(64)];
  for (const [index, slot] of slots.entries()) {
    const first = 1 + 10 * index;
    bench.setRows(slot, [
      [first, first + 1],
      [0, first + 3, first + 4, first + 5],
    ]);
    bench.hooks.scheduled(slot, 0, 64);
    const metadata = bench.hooks.buildMetadata();
    bench.sides.startSaves(metadata);
    jobs.push(...metadata.saves.subarray(0, metadata.saveCount));
  }
  const [job = NONE] = jobs;
  expect(jobs).toHaveLength(1);
  expect(bench.hooks.requestFinished(slots[1]!, 64, true)).toBe(true);
  saveDone(bench, job);
  apply(bench);
  const [owed = NONE] = settle(bench).jobs;
  expect([bench.row(owed, 0), bench.row(owed, 1)]).toEqual([
    [11, 12],
    [0, 14, 15, 16],
  ]);
  saveDone(bench, owed);
  apply(bench);
  expect(bench.pinnedBlocks()).toEqual([]);
});
