/**
 * Goal: loads and saves of models that mix windows, states and blocks of different sizes carry whole rows, hold what vLLM holds
 * and nothing else, and end as vLLM's do.
 * Method: the scheduler side alone, over real tables; rows, pins and records are compared with what is worked out by hand.
 */
import { describe, expect, test } from "vitest";
import { OUTCOME_ENGINE_ERROR, OUTCOME_HIT } from "../../src/actors/messages.ts";
import * as layout from "../../src/blocks/layout.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import { jobChains } from "../../src/connector/jobs.ts";
import { addDoneLoad, addDoneSave, createConnectorOutput } from "../../src/connector/outputs.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { HitRulesInput } from "../../src/keys/coordinator/hit-rules.ts";
import { ConnectorBench } from "./connector-bench.ts";

const WINDOW: HitRulesInput = {
  groups: [
    { kind: "full", spanTokens: 32 },
    { kind: "swa", spanTokens: 16, slidingWindow: 20 },
  ],
  hashBlockSize: 16,
};
const STATES: HitRulesInput = {
  groups: [
    { kind: "full", spanTokens: 16 },
    { kind: "mamba", spanTokens: 64 },
  ],
  hashBlockSize: 16,
  cacheHitAlignmentTokens: 16,
};

function benchOf(input: HitRulesInput, more: { ranks?: number } = {}): ConnectorBench {
  const rules = hitRules(input);
  return new ConnectorBench({
    rules,
    ...more,
    settings: { lookupAsync: true },
    dimensions: {
      groups: rules.groups.length,
      groupSpanTokens: rules.groups.map((group) => group.spanTokens),
      blockSize: rules.blockTokens,
      hashBlockSize: rules.hashBlockSize,
    },
  });
}

/** The lookup's answer, tails included, and the offer that follows. */
function offered(bench: ConnectorBench, slot: number, hit: number, tails: number[], local = 0) {
  bench.hooks.matchedTokens(slot, local);
  const at = bench.tables.request(slot) + layout.REQUEST_TAIL_TOKENS;
  tails.forEach((tokens, group) => (bench.tables.requests[at + group] = tokens));
  bench.answerHit(slot, hit);
  return bench.hooks.matchedTokens(slot, local);
}

function startLoad(bench: ConnectorBench): number {
  const metadata = bench.hooks.buildMetadata();
  expect(metadata.loadCount).toBe(1);
  bench.sides.startLoads(metadata);
  return metadata.loads[0] ?? layout.NONE;
}
function startSaves(bench: ConnectorBench): number[] {
  const metadata = bench.hooks.buildMetadata();
  bench.sides.startSaves(metadata);
  return [...metadata.saves.subarray(0, metadata.saveCount)];
}
const words = (bench: ConnectorBench, job: number, first: number, count: number): number[] =>
  Array.from({ length: count }, (_, index) => bench.job(job, first + index));

describe("a planned load", () => {
  test("carries each group's whole row with the tokens that name its last block, and holds no null block", () => {
    const bench = benchOf(WINDOW);
    const slot = bench.addRequest(100);
    expect(offered(bench, slot, 64, [64, 64])).toBe(64);
    const rows = [
      [1, 2, 3],
      [0, 0, 7, 8, 9],
    ];
    bench.setRows(slot, rows);
    bench.hooks.blocksAllocated(slot, 64);
    const job = startLoad(bench);
    expect(words(bench, job, layout.JOB_GROUP_BLOCKS, 2)).toEqual([2, 4]);
    expect([bench.row(job, 0), bench.row(job, 1)]).toEqual([
      [1, 2],
      [0, 0, 7, 8],
    ]);
    expect(words(bench, job, layout.JOB_TAIL_TOKENS, 2)).toEqual([64, 64]);
    expect(words(bench, job, layout.JOB_CHUNK_FIRST, 2)).toEqual([0, 2]);
    expect(bench.job(job, layout.JOB_LOCAL_TOKENS)).toBe(0);
    expect(bench.pinnedBlocks()).toEqual([1, 2, 7, 8]);
  });

  test("keeps the tails of the answer that it was offered for, whatever a later answer writes", () => {
    const bench = benchOf(STATES);
    const slot = bench.addRequest(100);
    expect(offered(bench, slot, 80, [80, 96])).toBe(80);
    const at = bench.tables.request(slot) + layout.REQUEST_TAIL_TOKENS;
    bench.tables.requests.fill(16, at, at + 2);
    bench.setRows(slot, [
      [1, 2, 3, 4, 5],
      [0, 6],
    ]);
    bench.hooks.blocksAllocated(slot, 80);
    const job = startLoad(bench);
    expect(words(bench, job, layout.JOB_TAIL_TOKENS, 2)).toEqual([80, 96]);
    // A hit inside of a block takes the block that it ends in.
    expect(words(bench, job, layout.JOB_GROUP_BLOCKS, 2)).toEqual([5, 2]);
  });

  test("is refused by no group that has its blocks, and is a mistake of the caller where one has too few", () => {
    const bench = benchOf(WINDOW);
    const slot = bench.addRequest(100);
    expect(offered(bench, slot, 64, [64, 64])).toBe(64);
    bench.setRows(slot, [
      [1, 2],
      [0, 5, 6],
    ]);
    expect(() => bench.hooks.blocksAllocated(slot, 64)).toThrow(/fewer blocks than the load/);
  });

  test("that fails gives the request back to its local tokens, because groups miss different blocks", () => {
    const bench = benchOf(WINDOW);
    const slot = bench.addRequest(200);
    expect(offered(bench, slot, 96, [96, 96], 32)).toBe(64);
    bench.setRows(slot, [
      [1, 2, 3],
      [0, 0, 0, 7, 8, 9],
    ]);
    bench.hooks.blocksAllocated(slot, 64);
    const job = startLoad(bench);
    const output = createConnectorOutput(4);
    addDoneLoad(output, job, OUTCOME_ENGINE_ERROR, 2);
    bench.hooks.applyOutput(output);
    expect([output.badChunks[0], output.loadOutcomes[0]]).toEqual([1, OUTCOME_ENGINE_ERROR]);
    expect(bench.pinnedBlocks()).toEqual([]);
  });

  test("hits end on hash blocks where blocks are reused in part, on whole chunks where not", () => {
    for (const [rules, tokens, asked] of [
      [STATES, 20, true],
      [WINDOW, 20, false],
    ] as const) {
      const bench = benchOf(rules);
      const slot = bench.addRequest(tokens);
      bench.hooks.matchedTokens(slot, 0);
      expect(bench.take("lookup").length).toBe(asked ? 1 : 0);
    }
  });
});

describe("a planned save", () => {
  test("starts at the request's first token each time, and holds the blocks that the request still has", () => {
    const bench = benchOf(WINDOW);
    const slot = bench.addRequest(100);
    bench.setRows(slot, [
      [1, 2],
      [5, 6, 7, 8],
    ]);
    bench.hooks.scheduled(slot, 0, 64);
    const [first = layout.NONE] = startSaves(bench);
    expect(words(bench, first, layout.JOB_CHUNK_FIRST, 3)).toEqual([0, 2, 64]);
    expect(bench.job(first, layout.JOB_PROMPT_TOKENS)).toBe(100);
    // The window has moved on: the first block is another's.
    bench.setRows(slot, [
      [1, 2, 3, 4],
      [0, 0, 7, 8, 9, 10, 11],
    ]);
    bench.hooks.scheduled(slot, 64, 36);
    const [second = layout.NONE] = startSaves(bench);
    expect(words(bench, second, layout.JOB_CHUNK_FIRST, 3)).toEqual([0, 3, 96]);
    expect([bench.row(second, 0), bench.row(second, 1)]).toEqual([
      [1, 2, 3, 4],
      [0, 0, 7, 8, 9, 10, 11],
    ]);
    // The first save still reads what the window gave up.
    expect(bench.pinnedBlocks()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    const output = createConnectorOutput(4);
    for (const job of [first, second]) addDoneSave(output, job, OUTCOME_HIT);
    bench.hooks.applyOutput(output);
    expect(bench.pinnedBlocks()).toEqual([]);
  });

  test("a sequence with too few blocks in any group is refused", () => {
    const bench = benchOf(WINDOW);
    const slot = bench.addRequest(100);
    bench.setRows(slot, [
      [1, 2],
      [5, 6, 7],
    ]);
    bench.hooks.scheduled(slot, 0, 64);
    const value = { request: slot, blocks: 3, needed: 4 };
    expect(() => bench.hooks.buildMetadata()).toThrow(expect.objectContaining({ value }));
  });

  test("states are put as they are handed over, with the prompt's tail of the other groups", () => {
    const bench = benchOf(STATES);
    const slot = bench.addRequest(100);
    bench.setRows(slot, [
      [1, 2, 3, 4, 5, 6, 7],
      [20, 21],
    ]);
    bench.hooks.scheduled(slot, 0, 100);
    bench.hooks.stateReached(slot, 1, 20, 64);
    bench.hooks.stateReached(slot, 1, 30, 96);
    const jobs = startSaves(bench);
    expect(jobs.length).toBe(1);
    const job = jobs[0] ?? layout.NONE;
    expect(bench.job(job, layout.JOB_TOKENS)).toBe(64);
    // The state at 96 is of use only with what attention needs of [64, 96).
    expect(bench.boundaries(job)).toEqual([
      [0, 5, 80],
      [0, 6, 96],
      [1, 20, 64],
      [1, 30, 96],
    ]);
    expect(words(bench, job, layout.JOB_GROUP_BLOCKS, 2)).toEqual([7, 0]);
    expect(bench.pinnedBlocks()).toEqual([1, 2, 3, 4, 5, 6, 7, 20, 30]);
  });

  test("states without a save of their own go alone; past the prefill they are dropped", () => {
    const bench = benchOf(STATES);
    const slot = bench.addRequest(150);
    bench.setRows(slot, [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [20]]);
    bench.hooks.scheduled(slot, 0, 70);
    const saved = startSaves(bench);
    expect(saved.length).toBe(1);
    bench.hooks.scheduled(slot, 70, 10);
    bench.hooks.stateReached(slot, 1, 20, 64);
    const [job = layout.NONE, ...more] = startSaves(bench);
    expect(more).toEqual([]);
    expect([bench.job(job, layout.JOB_TOKENS), bench.boundaries(job)]).toEqual([0, [[1, 20, 64]]]);
    bench.hooks.scheduled(slot, 80, 10);
    bench.hooks.stateReached(slot, 1, 22, 160);
    expect(startSaves(bench)).toEqual([]);
    expect(() => bench.hooks.stateReached(slot, 0, 5, 64)).toThrow(/no group of states/);
    expect(() => bench.hooks.stateReached(slot, 1, 5, 60)).toThrow(/ends on no block hash/);
  });

  test("a request's last states are saved with the next step, though it is gone by then", () => {
    const bench = benchOf(STATES);
    const slot = bench.addRequest(100);
    bench.setRows(slot, [
      [1, 2, 3, 4, 5, 6, 7],
      [20, 21],
    ]);
    bench.hooks.scheduled(slot, 0, 100);
    const [first = layout.NONE] = startSaves(bench);
    bench.hooks.finalStates(slot, [{ group: 1, block: 30, tokens: 96 }], 100);
    bench.hooks.requestFinished(slot);
    const [last = layout.NONE, ...more] = startSaves(bench);
    expect(more).toEqual([]);
    expect(bench.boundaries(last)).toEqual([
      [0, 5, 80],
      [0, 6, 96],
      [1, 30, 96],
    ]);
    expect(bench.hooks.inFlight(slot)).toBe(2);
    const output = createConnectorOutput(4);
    for (const job of [first, last]) addDoneSave(output, job, OUTCOME_HIT);
    bench.hooks.applyOutput(output);
    expect([
      bench.hooks.inFlight(slot),
      bench.pinnedBlocks(),
      bench.hooks.quarantinedBlocks(),
    ]).toEqual([0, [], 0]);
  });

  test("a successor holds the same blocks and pages until the jobs are reported", () => {
    const bench = benchOf(STATES);
    const slot = bench.addRequest(100);
    bench.setRows(slot, [
      [1, 2, 3, 4, 5, 6, 7],
      [0, 21],
    ]);
    bench.hooks.scheduled(slot, 0, 100);
    bench.hooks.stateReached(slot, 1, 30, 96);
    const [job = layout.NONE] = startSaves(bench);
    const pinned = bench.pinnedBlocks();
    const blockPages = new PageAllocator(bench.tables.blocks);
    blockPages.adopt(jobChains(bench.tables));
    const rules = hitRules(STATES);
    const successor = new ConnectorBench({ tables: bench.tables, blockPages, rules });
    successor.sides.adopt();
    expect(successor.pinnedBlocks()).toEqual(pinned);
    expect(successor.hooks.quarantinedBlocks()).toBe(new Set(pinned).size);
    const output = createConnectorOutput(4);
    addDoneSave(output, job, OUTCOME_HIT);
    successor.hooks.applyOutput(output);
    expect([successor.pinnedBlocks(), successor.hooks.quarantinedBlocks()]).toEqual([[], 0]);
    expect(blockPages.usedPages()).toBe(0);
  });
});
