/**
 * Goal: with too few blocks requests are preempted, recomputed and answered right, and nothing deadlocks while loads or saves
 * hold blocks. Method: tiny block pools, the real scheduler and connector sides, loader and saver held back where it matters.
 */
import { describe, expect, it } from "vitest";
import { ACTOR_LOADER, ACTOR_SAVER, ACTOR_SCHEDULER } from "../../src/actors/messages.ts";
import { promptOf, World } from "./scheduler-world.ts";

/** Every request has the model's answer, exactly one end and one release, and nothing is left anywhere. */
function expectAllWell(
  world: World,
  requests: { prompt: number[]; output: number; id: { slot: number; generation: number } }[],
): void {
  for (const { prompt, output, id } of requests) {
    const ended = world.ended(id);
    expect(ended.tokens).toEqual(world.truth(prompt, output));
    expect(ended.finished.length).toBe(1);
    expect(ended.released).toBe(1);
  }
  const { blockCount } = world.tables.dimensions;
  expect(world.scheduler.counters).toMatchObject({
    live: 0,
    pinnedBlocks: 0,
    quarantinedBlocks: 0,
    freeBlocks: blockCount - 1,
  });
  expect(world.memoryOfScheduler.pages.usedPages()).toBe(0);
}

function fill(world: World, prompt: number[]): void {
  world.add(prompt, 1);
  world.settle();
}
function dropLocal(world: World): void {
  world.post(ACTOR_SCHEDULER, { kind: "dropLocalCache", ticket: 1 });
  world.settle();
}

describe("preemption", () => {
  it("recomputes the last-come when blocks run out, and everyone ends right", () => {
    const world = new World({ dimensions: { blockCount: 13 } });
    const requests = [1, 2, 3].map((seed) => {
      const prompt = promptOf(9, seed);
      return { prompt, output: 16, id: world.add(prompt, 16) };
    });
    world.settle();
    expectAllWell(world, requests);
    expect(world.scheduler.counters.preemptions).toBeGreaterThan(0);
    expect(world.ended(requests[0]!.id).finished[0]?.preemptions).toBe(0);
    // No thrash: a preempted request waits until all it needs is there.
    expect(world.scheduler.counters.preemptions).toBeLessThanOrEqual(4);
  });

  it("lets a single request use every block", () => {
    const world = new World({ dimensions: { blockCount: 9 } });
    const prompt = promptOf(20, 4);
    const id = world.add(prompt, 12);
    world.settle();
    expectAllWell(world, [{ prompt, output: 12, id }]);
    expect(world.scheduler.counters.preemptions).toBe(0);
  });

  it("takes blocks back from a request whose load is over but which does not run yet", () => {
    const world = new World({ dimensions: { blockCount: 13 }, scheduler: { sequencesMax: 1 } });
    const loaded = promptOf(17, 2);
    fill(world, loaded);
    dropLocal(world);
    const long = promptOf(9, 1);
    const requests = [
      { prompt: long, output: 28, id: world.add(long, 28) },
      { prompt: loaded, output: 4, id: world.add(loaded, 4) },
    ];
    world.settle();
    expectAllWell(world, requests);
    expect(world.ended(requests[1]!.id).finished[0]?.preemptions).toBe(1);
  });
});

describe("loads that hold blocks", () => {
  it("runs others while a load is in flight, and never hands its blocks out", () => {
    const world = new World({ dimensions: { blockCount: 17 } });
    const stored = promptOf(25, 1);
    fill(world, stored);
    dropLocal(world);
    world.held.add(ACTOR_LOADER);
    const waits = world.add(stored, 2);
    world.settle();
    expect(world.scheduler.counters).toMatchObject({ parkedLoad: 1, pinnedBlocks: 6 });
    const prompt = promptOf(9, 2);
    const runs = world.add(prompt, 8);
    world.settle();
    expect(world.ended(runs).released).toBe(1);
    expect(world.ended(waits).tokens.length).toBe(0);
    world.held.delete(ACTOR_LOADER);
    world.settle();
    expectAllWell(world, [
      { prompt: stored, output: 2, id: waits },
      { prompt, output: 8, id: runs },
    ]);
  });

  it("bounds the blocks of loads in flight, and lets small requests pass the one that waits for its load", () => {
    const world = new World({ dimensions: { blockCount: 41 } });
    const stored = [1, 2, 3].map((seed) => promptOf(41, seed));
    for (const prompt of stored) fill(world, prompt);
    dropLocal(world);
    world.held.add(ACTOR_LOADER);
    const requests = stored.map((prompt) => ({ prompt, output: 2, id: world.add(prompt, 2) }));
    world.settle();
    // Half of 40 blocks: two loads of 10; the third waits its turn.
    expect(world.scheduler.counters).toMatchObject({ parkedLoad: 2, waiting: 1, running: 0 });
    const small = promptOf(3, 9);
    requests.push({ prompt: small, output: 4, id: world.add(small, 4) });
    world.settle();
    expect(world.ended(requests[3]!.id).released).toBe(1);
    world.held.delete(ACTOR_LOADER);
    world.settle();
    expectAllWell(world, requests);
    expect(world.scheduler.counters.loadsAdmitted).toBe(3);
  });

  it("leaves to a running prefill the blocks that it will still need", () => {
    const world = new World({ dimensions: { blockCount: 17 }, scheduler: { tokensPerStepMax: 4 } });
    const stored = promptOf(17, 1);
    fill(world, stored);
    dropLocal(world);
    const long = promptOf(41, 2);
    const runs = world.add(long, 4);
    while (world.scheduler.counters.running === 0) world.turn();
    const loads = world.add(stored, 2);
    while (world.ended(runs).tokens.length === 0) {
      world.turn();
      // Blocks are free, but not enough for this load beside the rest of the prompt.
      expect(world.scheduler.counters.parkedLoad).toBe(0);
    }
    world.settle();
    expectAllWell(world, [
      { prompt: long, output: 4, id: runs },
      { prompt: stored, output: 2, id: loads },
    ]);
    expect(world.scheduler.counters.preemptions).toBe(0);
  });

  it("does not deadlock when everyone loads into a pool that holds hardly one of them", () => {
    const world = new World({ dimensions: { blockCount: 13 } });
    const stored = [1, 2, 3, 4, 5].map((seed) => promptOf(33, seed));
    for (const prompt of stored) fill(world, prompt);
    dropLocal(world);
    const requests = stored.map((prompt) => ({ prompt, output: 9, id: world.add(prompt, 9) }));
    world.settle();
    expectAllWell(world, requests);
    expect(world.scheduler.counters.tokensFromPool).toBeGreaterThan(0);
  });

  it("waits for saves that pin all blocks, and goes on when they are over", () => {
    const world = new World({ dimensions: { blockCount: 9 } });
    world.held.add(ACTOR_SAVER);
    const first = promptOf(24, 1);
    const second = promptOf(24, 2);
    const one = world.add(first, 4);
    world.settle();
    const two = world.add(second, 4);
    world.settle();
    expect(world.ended(one).finished.length).toBe(1);
    expect(world.ended(one).released).toBe(0);
    expect(world.ended(two).tokens.length).toBe(0);
    expect(world.scheduler.counters).toMatchObject({ waiting: 1, draining: 1 });
    world.held.delete(ACTOR_SAVER);
    world.settle();
    expectAllWell(world, [
      { prompt: first, output: 4, id: one },
      { prompt: second, output: 4, id: two },
    ]);
  });
});
