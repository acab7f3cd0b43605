/**
 * Goal: continuous batching with chunked prefill computes the right tokens within its limits, with and without reuse.
 * Method: the real scheduler and connector sides with the simulated model, whose tokens are hashes of the KV bytes reached
 * through the block table; step buffers are read as they are sent.
 */
import { FRONT_END_RESERVE } from "../../src/actors/scheduler/core.ts";
import { describe, expect, it } from "vitest";
import { FINISH_ERROR, FINISH_LENGTH, FINISH_STOP } from "../../src/actors/messages.ts";
import {
  REQUEST_FLAG_IGNORE_END_TOKENS,
  REQUEST_FLAG_NO_REUSE,
  SEQUENCE_START,
  SEQUENCE_TOKENS,
  SEQUENCE_WORDS,
  STEP_HEADER_WORDS,
  STEP_SEQUENCES,
} from "../../src/blocks/layout.ts";
import { promptOf, World } from "./scheduler-world.ts";

/** Sequences (start, tokens) of the step that is queued for the model. */
function queuedStep(world: World): [number, number][] {
  const run = world.sent.findLast(({ message }) => message.kind === "runStep")?.message;
  if (run?.kind !== "runStep") throw new Error("no step");
  const start = world.tables.step(run.step);
  return Array.from({ length: world.tables.steps[start + STEP_SEQUENCES]! }, (_, index) => {
    const at = start + STEP_HEADER_WORDS + index * SEQUENCE_WORDS;
    return [world.tables.steps[at + SEQUENCE_START]!, world.tables.steps[at + SEQUENCE_TOKENS]!];
  });
}

describe("continuous batching", () => {
  it("answers several requests of different lengths with the model's truth and gives everything back", () => {
    const world = new World({ scheduler: { tokensPerStepMax: 16 } });
    const requests = [3, 4, 17, 40, 1].map((length, seed) => {
      const prompt = promptOf(length, seed);
      return { prompt, id: world.add(prompt, 6) };
    });
    world.settle();
    for (const { prompt, id } of requests) {
      const ended = world.ended(id);
      expect(ended.tokens).toEqual(world.truth(prompt, 6));
      expect(ended.finished.map((message) => message.reason)).toEqual([FINISH_LENGTH]);
      expect(ended.finished[0]).toMatchObject({ outputTokens: 6, preemptions: 0 });
      expect(ended.released).toBe(1);
    }
    expect(world.scheduler.counters).toMatchObject({
      live: 0,
      running: 0,
      pinnedBlocks: 0,
      freeBlocks: 64,
    });
    expect(world.memoryOfScheduler.pages.usedPages()).toBe(0);
  });

  it("cuts prompts in chunks within the budget, and lets requests that generate go first", () => {
    const world = new World({ scheduler: { tokensPerStepMax: 8 } });
    const steps: [number, number][][] = [];
    const first = world.add(promptOf(3, 1), 30);
    while (world.ended(first).tokens.length === 0) world.turn();
    const second = world.add(promptOf(20, 2), 4);
    while (world.ended(second).tokens.length === 0) {
      const before = world.count("runStep");
      world.turn();
      if (world.count("runStep") > before) steps.push(queuedStep(world));
    }
    // Whatever else is in the step: 8 tokens at most, the generating request first with one token, chunks in order.
    const chunks = steps.filter((step) => step.length === 2).slice(0, 3);
    expect(chunks.map((step) => step[0]![1])).toEqual([1, 1, 1]);
    expect(chunks.map((step) => step[1])).toEqual([
      [0, 7],
      [7, 7],
      [14, 6],
    ]);
  });

  it("runs at most sequencesMax sequences", () => {
    const world = new World({ scheduler: { sequencesMax: 2 } });
    const ids = [1, 2, 3, 4].map((seed) => world.add(promptOf(5, seed), 3));
    let most = 0;
    for (let turn = 0; turn < 60; turn++) {
      world.turn();
      most = Math.max(most, world.scheduler.counters.running);
    }
    expect(most).toBe(2);
    for (const id of ids) expect(world.ended(id).tokens.length).toBe(3);
  });

  it("ends on an end token, unless the request minds none", () => {
    const prompt = promptOf(6, 9);
    const truth = new World().truth(prompt, 8);
    const world = new World({ scheduler: { endTokenIds: [truth[3]!] } });
    const stops = world.add(prompt, 8);
    const ignores = world.add(prompt, 8, REQUEST_FLAG_IGNORE_END_TOKENS);
    world.settle();
    expect(world.ended(stops).tokens).toEqual(truth.slice(0, truth.indexOf(truth[3]!) + 1));
    expect(world.ended(stops).finished[0]?.reason).toBe(FINISH_STOP);
    expect(world.ended(ignores).tokens).toEqual(truth);
  });

  it("refuses a request that all blocks together cannot hold", () => {
    const world = new World({ dimensions: { blockCount: 9 } });
    const id = world.add(promptOf(30, 1), 10);
    world.settle();
    expect(world.ended(id).finished.map((message) => message.reason)).toEqual([FINISH_ERROR]);
    expect(world.ended(id).released).toBe(1);
  });

  it("never schedules a token for which the front end has no room", () => {
    const world = new World();
    const id = world.add(promptOf(6, 3), 4);
    world.frontEndRoom = FRONT_END_RESERVE + 2 * 16; // the end and the release of each of 16 slots
    for (let turn = 0; turn < 20; turn++) world.turn();
    expect(world.ended(id).tokens.length).toBe(0);
    expect(world.turn()).toBeLessThan(world.nowMs + 10);
    world.frontEndRoom = FRONT_END_RESERVE + 2 * 16 + 1;
    world.settle();
    expect(world.ended(id).tokens).toEqual(world.truth(promptOf(6, 3), 4));
  });
});

describe("reuse", () => {
  it("takes whole local blocks and leaves the last token to compute", () => {
    const world = new World({ pool: false });
    const prompt = promptOf(12, 5);
    for (const local of [0, 8]) {
      const id = world.add(prompt, 3);
      world.settle();
      expect(world.ended(id).tokens).toEqual(world.truth(prompt, 3));
      expect(world.ended(id).finished[0]).toMatchObject({ localTokens: local, poolTokens: 0 });
    }
  });

  it("caches blocks of answers as they fill", () => {
    const world = new World({ pool: false });
    const prompt = promptOf(6, 5);
    world.add(prompt, 11);
    world.settle();
    const longer = [...prompt, ...world.truth(prompt, 11), 1, 2];
    const id = world.add(longer, 2);
    world.settle();
    expect(world.ended(id).finished[0]?.localTokens).toBe(16);
    expect(world.ended(id).tokens).toEqual(world.truth(longer, 2));
  });

  it("brings blocks back from the pool after the local cache was dropped", () => {
    const world = new World();
    const prompt = promptOf(21, 5);
    world.add(prompt, 3);
    world.settle();
    world.post(0, { kind: "dropLocalCache", ticket: 77 });
    world.settle();
    const dropped = world.sent.find(({ message }) => message.kind === "localCacheDropped")?.message;
    expect(dropped).toMatchObject({ ticket: 77, blocks: 5 });
    expect(world.scheduler.counters.cachedBlocks).toBe(0);
    const id = world.add(prompt, 3);
    world.settle();
    expect(world.ended(id).tokens).toEqual(world.truth(prompt, 3));
    expect(world.ended(id).finished[0]).toMatchObject({ localTokens: 0, poolTokens: 20 });
    expect(world.scheduler.counters).toMatchObject({ tokensFromPool: 20, loadsAdmitted: 1 });
  });

  it("neither reads nor writes cache and pool for a request that wants no reuse", () => {
    const world = new World();
    const prompt = promptOf(21, 5);
    for (let run = 0; run < 2; run++) {
      const id = world.add(prompt, 3, REQUEST_FLAG_NO_REUSE);
      world.settle();
      expect(world.ended(id).tokens).toEqual(world.truth(prompt, 3));
      expect(world.ended(id).finished[0]).toMatchObject({ localTokens: 0, poolTokens: 0 });
    }
    expect(world.actors.pool.size).toBe(0);
    expect(world.scheduler.counters.cachedBlocks).toBe(0);
    expect(world.count("lookup") + world.count("hashRequest")).toBe(0);
  });
});
