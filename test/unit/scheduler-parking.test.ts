/**
 * Goal: waits for hashes, lookups and loads are parked, end by message or by deadline, cost nothing meanwhile, and failed or
 * aborted ones leave right answers and no leftovers. Method: single actors are held back; virtual time.
 */
import { describe, expect, it } from "vitest";
import {
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
  FINISH_ABORTED,
  FINISH_ERROR,
  FINISH_LENGTH,
  OUTCOME_TIMEOUT,
} from "../../src/actors/messages.ts";
import { promptOf, World, type WorldOptions } from "./scheduler-world.ts";

const PROMPT = promptOf(21, 5);

/** A world whose pool, and not its local cache, holds the prompt's five whole blocks. */
function stored(options: WorldOptions = {}): World {
  const world = new World(options);
  world.add(PROMPT, 1);
  world.settle();
  world.post(ACTOR_SCHEDULER, { kind: "dropLocalCache", ticket: 1 });
  world.settle();
  return world;
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

describe("waits", () => {
  it("goes on without reuse when the hashes take too long", () => {
    const world = new World();
    world.held.add(ACTOR_LOOKUP);
    const id = world.add(PROMPT, 3);
    expect(world.turn()).toBe(world.nowMs + 1000);
    expect(world.scheduler.counters.parkedHashes).toBe(1);
    world.nowMs += 1000;
    // The lookup may not answer either.
    world.settle();
    world.nowMs += 1000;
    world.settle();
    expect(world.ended(id).tokens).toEqual(world.truth(PROMPT, 3));
    expect(world.scheduler.counters).toMatchObject({ hashTimeouts: 1, draining: 1 });
    world.held.delete(ACTOR_LOOKUP);
    world.settle();
    expect(world.ended(id).released).toBe(1);
    expectEmpty(world);
  });

  it("goes on without the pool when the lookup takes too long, and says so", () => {
    const world = stored();
    const id = world.add(PROMPT, 3);
    world.turn();
    world.held.add(ACTOR_LOOKUP);
    world.settle();
    expect(world.scheduler.counters.parkedLookup).toBe(1);
    world.nowMs += 1000;
    world.settle();
    expect(world.ended(id).tokens).toEqual(world.truth(PROMPT, 3));
    expect(world.ended(id).finished[0]).toMatchObject({
      poolTokens: 0,
      lookupOutcome: OUTCOME_TIMEOUT,
    });
    world.held.delete(ACTOR_LOOKUP);
    world.settle();
    expectEmpty(world);
  });

  it("computes after a load whose engine never acknowledges, and keeps its blocks in quarantine", () => {
    const world = stored();
    world.held.add(ACTOR_LOADER);
    const id = world.add(PROMPT, 3);
    world.settle();
    for (let round = 0; round < 2; round++) {
      world.nowMs += 30_000;
      world.settle();
    }
    expect(world.ended(id).tokens).toEqual(world.truth(PROMPT, 3));
    expect(world.ended(id).released).toBe(0);
    expect(world.scheduler.counters.quarantinedBlocks).toBe(5);
    world.held.delete(ACTOR_LOADER);
    world.settle();
    expect(world.ended(id).released).toBe(1);
    expectEmpty(world);
  });

  it("looks at a parked request again only when its own wait ends", () => {
    const world = stored();
    world.held.add(ACTOR_LOADER);
    for (let index = 0; index < 3; index++) world.add(PROMPT, 1);
    world.settle();
    const before = world.sent.length;
    for (let turn = 0; turn < 50; turn++) world.turn();
    expect(world.sent.length).toBe(before);
    world.held.delete(ACTOR_LOADER);
    world.settle();
    expectEmpty(world);
  });
});

describe("load results", () => {
  for (const bad of [0, 2, 4]) {
    it(`cuts back to the first bad block (${bad}) and recomputes the rest`, () => {
      const world = stored();
      world.actors.failLoadsFrom = bad;
      const id = world.add(PROMPT, 4);
      world.settle();
      expect(world.ended(id).tokens).toEqual(world.truth(PROMPT, 4));
      expect(world.ended(id).finished[0]).toMatchObject({
        reason: FINISH_LENGTH,
        poolTokens: bad * 4,
      });
      // What the cache holds now is right, too.
      const again = world.add(PROMPT, 4);
      world.settle();
      expect(world.ended(again).tokens).toEqual(world.truth(PROMPT, 4));
      expectEmpty(world);
    });
  }

  it("ends the request under policy fail", () => {
    const world = stored({ scheduler: { loadFailurePolicy: "fail" } });
    world.actors.failLoadsFrom = 1;
    const id = world.add(PROMPT, 4);
    world.settle();
    expect(world.ended(id).finished.map(({ reason }) => reason)).toEqual([FINISH_ERROR]);
    expectEmpty(world);
  });

  it("starts no step before a synchronous load is over, and cuts back before it", () => {
    const world = stored({ scheduler: { loadAsync: false } });
    world.actors.failLoadsFrom = 3;
    world.held.add(ACTOR_LOADER);
    const id = world.add(PROMPT, 4);
    const other = world.add(promptOf(3, 8), 2);
    world.settle();
    const steps = world.count("runStep");
    for (let turn = 0; turn < 10; turn++) world.turn();
    expect(world.count("runStep")).toBe(steps);
    world.held.delete(ACTOR_LOADER);
    world.settle();
    expect(world.ended(id).tokens).toEqual(world.truth(PROMPT, 4));
    expect(world.ended(other).tokens).toEqual(world.truth(promptOf(3, 8), 2));
    expect(world.ended(id).finished[0]?.poolTokens).toBe(12);
    expectEmpty(world);
  });

  it("starts saves only when the step that computes them is over", () => {
    const world = new World();
    world.held.add(ACTOR_MODEL);
    world.add(PROMPT, 1);
    world.settle();
    expect(world.count("runStep")).toBe(1);
    expect(world.count("save")).toBe(0);
    world.held.delete(ACTOR_MODEL);
    world.settle();
    expect(world.count("save")).toBe(1);
    expectEmpty(world);
  });
});

describe("abort", () => {
  const states: { name: string; hold: number; seen: object; before?: (world: World) => void }[] = [
    { name: "while it waits for hashes", hold: ACTOR_LOOKUP, seen: { parkedHashes: 1 } },
    {
      name: "while it waits for the lookup",
      hold: ACTOR_LOOKUP,
      seen: { parkedLookup: 1 },
      before: (world) => world.turn(),
    },
    { name: "while it waits for its load", hold: ACTOR_LOADER, seen: { parkedLoad: 1 } },
    { name: "with a step in flight", hold: ACTOR_MODEL, seen: { running: 1 } },
    { name: "while its save runs", hold: ACTOR_SAVER, seen: { running: 1 } },
  ];
  for (const { name, hold, seen, before } of states) {
    it(`ends once and releases once ${name}`, () => {
      const world = stored();
      const id = world.add(PROMPT, 200);
      before?.(world);
      world.held.add(hold);
      for (let turn = 0; turn < 12; turn++) world.turn();
      expect(world.scheduler.counters).toMatchObject(seen);
      world.abort(id);
      world.abort(id);
      for (let turn = 0; turn < 3; turn++) world.turn();
      world.held.delete(hold);
      world.settle();
      expect(world.ended(id).finished.map(({ reason }) => reason)).toEqual([FINISH_ABORTED]);
      expect(world.ended(id).released).toBe(1);
      expectEmpty(world);
      const next = world.add(PROMPT, 3);
      world.settle();
      expect(world.ended(next).tokens).toEqual(world.truth(PROMPT, 3));
    });
  }

  it("keeps the blocks of an aborted load out of reach until the engine has acknowledged", () => {
    const world = stored();
    world.held.add(ACTOR_LOADER);
    const id = world.add(PROMPT, 4);
    world.settle();
    world.abort(id);
    world.settle();
    expect(world.ended(id).finished.length).toBe(1);
    expect(world.ended(id).released).toBe(0);
    expect(world.scheduler.counters).toMatchObject({
      quarantinedBlocks: 5,
      pinnedBlocks: 5,
      freeBlocks: 59,
    });
    world.held.delete(ACTOR_LOADER);
    world.settle();
    expect(world.ended(id).released).toBe(1);
    expectEmpty(world);
  });

  it("aborts a preempted request", () => {
    const world = new World({ dimensions: { blockCount: 13 } });
    const ids = [1, 2].map((seed) => world.add(promptOf(9, seed), 30));
    while (world.scheduler.counters.preemptions === 0) world.turn();
    expect(world.scheduler.counters.waiting).toBe(1);
    world.abort(ids[1]!);
    world.settle();
    expect(world.ended(ids[1]!).finished[0]).toMatchObject({
      reason: FINISH_ABORTED,
      preemptions: 1,
    });
    expect(world.ended(ids[0]!).tokens).toEqual(world.truth(promptOf(9, 1), 30));
    expectEmpty(world);
  });

  it("drops late, duplicate and unknown messages and counts them", () => {
    const world = new World();
    const id = world.add(PROMPT, 2);
    world.settle();
    world.abort(id);
    world.abort({ slot: 3, generation: 99 });
    world.post(ACTOR_SCHEDULER, {
      kind: "hashed",
      slot: id.slot,
      generation: id.generation,
      blocks: 5,
    });
    world.post(ACTOR_SCHEDULER, {
      kind: "stepDone",
      step: 0,
      number: 999,
      status: 0,
      microseconds: 0,
    });
    world.post(ACTOR_SCHEDULER, { kind: "addRequest", slot: id.slot, generation: id.generation });
    world.settle();
    expect(world.scheduler.counters.staleMessages).toBe(5);
    expectEmpty(world);
  });
});

describe("stop", () => {
  it("aborts everyone, waits for what is in flight, and is idle then", () => {
    const world = stored();
    world.held.add(ACTOR_LOADER);
    world.held.add(ACTOR_MODEL);
    const ids = [world.add(PROMPT, 4), world.add(promptOf(7, 2), 4)];
    world.settle();
    world.post(ACTOR_SCHEDULER, { kind: "stop", deadlineMs: 0 });
    world.settle();
    expect(world.scheduler.idle()).toBe(false);
    world.held.clear();
    world.settle();
    expect(world.scheduler.idle()).toBe(true);
    for (const id of ids) expect(world.ended(id).finished[0]?.reason).toBe(FINISH_ABORTED);
    const late = world.add(PROMPT, 4);
    world.settle();
    expect(world.ended(late).finished[0]?.reason).toBe(FINISH_ABORTED);
    expectEmpty(world);
  });
});
