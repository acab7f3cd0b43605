/**
 * Goal: the simulated engine tells the truth (first value stays, bounded, sizes checked), shows blocks that are reused too
 * early, and its faults come from the seed alone; key space plans name every prefix once.
 * Method: the pool and the fault source directly, and a channel with a key space.
 */
import { describe, expect, test } from "vitest";

import { SeededRandom } from "../../src/actors/hosts/simulated/random.ts";
import * as layout from "../../src/blocks/layout.ts";
import { BlockMemory } from "../../src/store/block-memory.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { createFaults } from "../../src/store/fault-engine.ts";
import { keySpaceOptions, planKeySpace } from "../../src/store/key-spaces.ts";
import { ModelPool } from "../../src/store/model-pool.ts";
import { ActorWorld, range } from "./store-world.ts";

describe("ModelPool", () => {
  test("the first value of a key stays; the oldest use is evicted; room is counted", () => {
    const random = new SeededRandom(3);
    const pool = new ModelPool({ bytesMax: 100, random: () => random.next() });
    expect(pool.put("a", new Uint8Array(10).fill(1))).toBe(10);
    expect(pool.put("a", new Uint8Array(20).fill(2))).toBe(10);
    expect(pool.peek("a")?.[0]).toBe(1);
    range(0, 30).forEach((key) => {
      pool.put(`k${key}`, new Uint8Array(10));
      pool.get("a");
    });
    expect(pool.bytesUsed).toBe(100);
    expect(pool.size).toBe(10);
    expect(pool.evictions).toBe(21);
    expect(pool.has("a")).toBe(true);
    expect(pool.put("huge", new Uint8Array(101))).toBe(EngineCode.NO_AVAILABLE_HANDLE);
    expect(pool.size).toBe(10);
    expect(pool.remove("a")).toBe(true);
    expect(pool.bytesUsed).toBe(90);
  });
});

describe("BlockMemory", () => {
  test("a value is the concatenation of a block's segments", () => {
    const region = Uint8Array.from(range(0, 40));
    const segments = [
      { offset: 0, strideBytes: 4, bytes: 2 },
      { offset: 20, strideBytes: 4, bytes: 3 },
    ];
    const memory = new BlockMemory(region, segments, 4);
    expect([...memory.read(1)]).toEqual([4, 5, 24, 25, 26]);
    memory.write(2, Uint8Array.of(90, 91, 92, 93, 94));
    expect([...region.subarray(8, 10), ...region.subarray(28, 31)]).toEqual([90, 91, 92, 93, 94]);
    expect(() => new BlockMemory(region, segments, 6)).toThrow(/segments/);
  });
});

describe("createFaults", () => {
  const options = {
    keyFailure: 0.2,
    batchFailure: 0.1,
    slowBatch: 0.3,
    eviction: 0.2,
    sizeMismatch: 0.1,
    noSpace: 0.2,
    checksumMismatch: 0.1,
  };
  function draw(seed: number): unknown[] {
    const random = new SeededRandom(seed);
    const faults = createFaults(
      options,
      () => random.next(),
      () => 0,
    );
    return range(0, 200).map(() => [
      faults.slowness(),
      faults.batchStatus(layout.OPERATION_GET),
      faults.keyResult(layout.OPERATION_PUT),
      faults.keyResult(layout.OPERATION_GET),
      faults.keyResult(layout.OPERATION_EXISTS),
      faults.evicts(),
    ]);
  }

  test("equal seeds give equal faults, of every kind that was asked for", () => {
    expect(draw(7)).toEqual(draw(7));
    expect(draw(7)).not.toEqual(draw(8));
    const seen = new Set(draw(7).flat());
    for (const wanted of [
      20,
      EngineCode.ENGINE_ERROR,
      EngineCode.NO_AVAILABLE_HANDLE,
      EngineCode.BUFFER_SMALLER,
      EngineCode.BUFFER_LARGER,
      EngineCode.CHECKSUM_MISMATCH,
      true,
    ])
      expect(seen).toContain(wanted);
  });

  test("during an outage everything answers ENGINE_DOWN, outside nothing does", () => {
    let now = 0;
    const faults = createFaults(
      { outages: [[10, 20]] },
      () => 0,
      () => now,
    );
    const status = (atMs: number): number => {
      now = atMs;
      return faults.batchStatus(layout.OPERATION_EXISTS);
    };
    expect([9, 10, 19, 20].map(status)).toEqual([
      EngineCode.OK,
      EngineCode.ENGINE_DOWN,
      EngineCode.ENGINE_DOWN,
      EngineCode.OK,
    ]);
  });
});

describe("SimulatedChannel", () => {
  test("a block that is reused before the completion shows as wrong bytes, sooner or later", () => {
    let wrong = 0;
    for (const seed of range(1, 60)) {
      const world = new ActorWorld({ seed, delayMsMax: 10 });
      const channel = world.channel.attach(1);
      world.writeHash(0, 0, 0);
      world.block(0, 0).fill(1);
      const slot = channel.acquire();
      channel.entries(slot).set([0, 0, 0, 0]);
      channel.submit(slot, layout.OPERATION_PUT, 0, 1, 0, 0);
      world.clock.nowMs = 2;
      world.clock.runDue();
      world.block(0, 0).fill(2);
      world.clock.nowMs = 100;
      world.clock.runDue();
      expect(channel.poll()).toBe(slot);
      if (world.pool.peek(world.key(0, 0, 0, 0))?.[0] === 2) wrong++;
    }
    expect(wrong).toBeGreaterThan(5);
  });

  test("values of another size, entries out of range, remove and remove all", () => {
    const world = new ActorWorld();
    const channel = world.channel.attach(1);
    range(0, 3).forEach((block) => world.writeHash(0, block, block));
    world.pool.put(world.key(0, 0, 0, 0), new Uint8Array(5));
    world.pool.put(world.key(0, 0, 0, 1), new Uint8Array(500));
    const run = (operation: number, entries: number[][]): number[] => {
      const slot = channel.acquire();
      entries.forEach((entry, index) => channel.entries(slot).set(entry, 4 * index));
      channel.submit(slot, operation, 0, entries.length, 0, 0);
      world.clock.nowMs += 100;
      world.clock.runDue();
      const done = channel.poll();
      const results = [...channel.results(done).subarray(0, entries.length)];
      channel.release(done);
      return results;
    };
    expect(
      run(layout.OPERATION_GET, [
        [0, 0, 1, 0],
        [0, 0, 1, 1],
        [0, 9, 1, 0],
        [5, 0, 1, 0],
        [0, 0, -1, 0],
        [0, 0, 1, 1 << 20],
      ]),
    ).toEqual([
      EngineCode.BUFFER_LARGER,
      EngineCode.BUFFER_SMALLER,
      EngineCode.BAD_ENTRY,
      EngineCode.BAD_ENTRY,
      EngineCode.BAD_ENTRY,
      EngineCode.BAD_ENTRY,
    ]);
    expect(
      run(layout.OPERATION_REMOVE, [
        [0, 0, -1, 0],
        [0, 0, -1, 2],
      ]),
    ).toEqual([EngineCode.OK, EngineCode.OBJECT_NOT_FOUND]);
    run(layout.OPERATION_REMOVE_ALL, []);
    expect(world.pool.size).toBe(0);
  });
});

test("a key space plan lists every prefix once and passes them on", () => {
  const segment = [{ regionId: 1, offset: 0, strideBytes: 8, bytes: 8 }];
  const segments = [segment, segment];
  const plan = planKeySpace({
    tensorParallelRank: 1,
    groups: [
      { putStep: 2, putPhase: 1, own: ["b"], lookup: ["a", "b"] },
      { putStep: 1, putPhase: 0, own: ["d"], lookup: ["c", "d"] },
    ],
    segments: [[segment], [segment]],
  });
  expect(plan.prefixes).toEqual(["b", "d", "a", "c"]);
  expect(plan.ownPrefixOfGroup).toEqual([0, 1]);
  expect(plan.lookupPrefixesOfGroup).toEqual([
    [2, 0],
    [3, 1],
  ]);
  expect(keySpaceOptions(plan, { hashesSharedId: 4, hashBytes: 32 }, 9)).toEqual({
    hashesSharedId: 4,
    hashBytes: 32,
    prefixes: plan.prefixes,
    groups: segments,
    blockCount: 9,
  });
});
