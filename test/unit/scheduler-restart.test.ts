/**
 * Goal: a scheduler that dies is replaced by one that ends every request exactly once and right; a model that dies has its step
 * run again, once. Method: the scheduler's private state is thrown away at every turn of a run, in turn; queues, tables and
 * the stand-ins of the other actors go on.
 */
import { describe, expect, it } from "vitest";
import {
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
  FINISH_ABORTED,
} from "../../src/actors/messages.ts";
import {
  NONE,
  REQUEST_FLAG_ABORTED,
  REQUEST_FLAGS,
  REQUEST_OUTPUT_TOKENS_WORD,
} from "../../src/blocks/layout.ts";
import { promptOf, World } from "./scheduler-world.ts";

const PROMPT = promptOf(21, 5);

function stored(): World {
  const world = new World({ scheduler: { tokensPerStepMax: 8 } });
  world.add(PROMPT, 1);
  world.settle();
  world.post(ACTOR_SCHEDULER, { kind: "dropLocalCache", ticket: 1 });
  world.settle();
  return world;
}

function expectEnded(
  world: World,
  id: { slot: number; generation: number },
  prompt: number[],
  output: number,
): void {
  const ended = world.ended(id);
  expect(ended.tokens).toEqual(world.truth(prompt, output));
  expect(ended.finished.length).toBe(1);
  expect(ended.released).toBe(1);
}

function expectEmpty(world: World): void {
  const free = world.tables.dimensions.blockCount - 1;
  expect(world.scheduler.counters).toMatchObject({
    live: 0,
    pinnedBlocks: 0,
    quarantinedBlocks: 0,
    freeBlocks: free,
  });
  expect(world.memoryOfScheduler.pages.usedPages()).toBe(0);
}

describe("a scheduler that dies", () => {
  for (const held of [NONE, ACTOR_LOOKUP, ACTOR_LOADER, ACTOR_SAVER, ACTOR_MODEL]) {
    it(`is replaced at any turn, with actor ${held} held back meanwhile`, () => {
      for (let turns = 0; turns < 14; turns++) {
        const world = stored();
        const other = promptOf(11, 7);
        const ids = [world.add(PROMPT, 5), world.add(other, 5)];
        if (held !== NONE) world.held.add(held);
        for (let turn = 0; turn < turns; turn++) world.turn();
        world.startScheduler();
        for (let turn = 0; turn < 3; turn++) world.turn();
        world.held.clear();
        world.settle();
        expectEnded(world, ids[0]!, PROMPT, 5);
        expectEnded(world, ids[1]!, other, 5);
        expectEmpty(world);
      }
    });
  }

  it("starts nothing before the step of its predecessor is over", () => {
    const world = new World();
    world.held.add(ACTOR_MODEL);
    const id = world.add(PROMPT, 3);
    world.settle();
    expect(world.count("runStep")).toBe(1);
    world.startScheduler();
    world.settle();
    // The fence alone: nothing is allocated while the old step may write its blocks.
    expect(world.count("runStep")).toBe(2);
    expect(world.scheduler.counters.freeBlocks).toBe(64);
    world.held.delete(ACTOR_MODEL);
    world.settle();
    expectEnded(world, id, PROMPT, 3);
    expectEmpty(world);
  });

  it("saves nothing of a step that was lost with the model", () => {
    const world = new World();
    world.held.add(ACTOR_MODEL);
    const id = world.add(PROMPT, 3);
    world.settle();
    expect(world.count("runStep")).toBe(1);
    world.loseQueue(ACTOR_MODEL);
    world.restartModel();
    world.startScheduler();
    world.held.add(ACTOR_LOOKUP);
    world.held.delete(ACTOR_MODEL);
    world.settle();
    // The predecessor's save job was never handed out, because its step was never over.
    expect(world.actors.pool.size).toBe(0);
    expect(world.scheduler.counters.pinnedBlocks).toBe(0);
    world.held.clear();
    world.settle();
    expectEnded(world, id, PROMPT, 3);
    world.post(ACTOR_SCHEDULER, { kind: "dropLocalCache", ticket: 1 });
    const again = world.add(PROMPT, 3);
    world.settle();
    expectEnded(world, again, PROMPT, 3);
    expect(world.ended(again).finished[0]?.poolTokens).toBe(20);
    expectEmpty(world);
  });

  it("finds an abort whose message was lost", () => {
    const world = new World();
    const id = world.add(PROMPT, 30);
    for (let turn = 0; turn < 8; turn++) world.turn();
    Atomics.or(
      world.tables.requests,
      world.tables.request(id.slot) + REQUEST_FLAGS,
      REQUEST_FLAG_ABORTED,
    );
    world.startScheduler();
    world.settle();
    expect(world.ended(id).finished.map(({ reason }) => reason)).toEqual([FINISH_ABORTED]);
    expect(world.ended(id).released).toBe(1);
    expectEmpty(world);
  });

  it("does not generate again what the front end can read in the row", () => {
    const world = new World();
    const id = world.add(PROMPT, 6);
    while (world.ended(id).tokens.length < 3) world.turn();
    const word = world.tables.request(id.slot) + REQUEST_OUTPUT_TOKENS_WORD;
    const published = Atomics.load(world.tables.requests, word);
    world.startScheduler();
    world.settle();
    expectEnded(world, id, PROMPT, 6);
    expect(published).toBeGreaterThanOrEqual(3);
    expect(world.count("tokenGenerated")).toBe(6);
  });
});

describe("a model that dies", () => {
  it("gets the lost step again", () => {
    const world = new World();
    const id = world.add(PROMPT, 3);
    world.held.add(ACTOR_MODEL);
    world.settle();
    world.computeAndLoseModel();
    world.settle();
    expect(world.ended(id).tokens.length).toBe(0);
    world.held.delete(ACTOR_MODEL);
    world.settle();
    expectEnded(world, id, PROMPT, 3);
    expectEmpty(world);
  });

  it("does not get it twice when its successor found it in the mailbox", () => {
    const world = new World();
    const id = world.add(PROMPT, 3);
    world.held.add(ACTOR_MODEL);
    world.settle();
    world.restartModel();
    world.held.delete(ACTOR_MODEL);
    world.settle();
    expectEnded(world, id, PROMPT, 3);
    // Three steps and the fence, none of them twice: a second run could write blocks that have a new owner by then.
    const numbers = world.sent.flatMap(({ message }) =>
      message.kind === "runStep" ? [message.number] : [],
    );
    expect(numbers.length).toBe(4);
    expect(new Set(numbers).size).toBe(4);
    expectEmpty(world);
  });

  it("keeps requests that were aborted meanwhile until it is certain that nothing writes their blocks", () => {
    const world = new World();
    const id = world.add(PROMPT, 3);
    world.held.add(ACTOR_MODEL);
    world.settle();
    world.computeAndLoseModel();
    world.abort(id);
    world.settle();
    expect(world.ended(id).finished.length).toBe(0);
    world.held.delete(ACTOR_MODEL);
    world.settle();
    expect(world.ended(id).finished.map(({ reason }) => reason)).toEqual([FINISH_ABORTED]);
    expectEmpty(world);
  });
});

describe("a step that fails", () => {
  it("is run again", () => {
    const world = new World();
    const id = world.add(PROMPT, 3);
    world.failSteps = 4;
    world.settle();
    expectEnded(world, id, PROMPT, 3);
    expect(world.scheduler.counters.stepRetries).toBe(4);
    expectEmpty(world);
  });

  it("ends its requests when it fails for good, and saves nothing of it", () => {
    const world = new World({ scheduler: { stepTriesMax: 3 } });
    const id = world.add(PROMPT, 3);
    world.failSteps = 3;
    world.settle();
    expect(world.ended(id).finished[0]?.outputTokens).toBe(0);
    expect(world.actors.pool.size).toBe(0);
    expectEmpty(world);
    const next = world.add(PROMPT, 3);
    world.settle();
    expectEnded(world, next, PROMPT, 3);
  });
});
