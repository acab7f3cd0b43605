/**
 * Goal: batches reach the local engine through a channel and come back, from the main thread and from a worker; engines of one
 * pool name share it; statistics and tools see the pool.
 * Method: a region of KV blocks, real I/O threads, completions awaited through the wake handle.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { once } from "node:events";
import { Worker } from "node:worker_threads";

import * as layout from "../../src/blocks/layout.ts";
import { loadNative } from "../../src/native/load.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { Actor, openWorld } from "./native-actor.mjs";
import type { World } from "./native-actor.mjs";

const native = loadNative();
let poolNumber = 0;
let world: World;

beforeEach(() => {
  world = openWorld(native, layout, { poolName: `engine-test-${process.pid}-${poolNumber++}` });
});
afterEach(() => {
  expect(native.engineClose(world.engineId, 10_000)).toBe(0);
  native.keySpaceRelease(world.keySpaceId);
  native.regionRelease(world.regionId);
  native.sharedRelease(world.hashesSharedId);
});

/** Both segments of a block. */
function segments(bytes: Uint8Array, block: number): Uint8Array[] {
  const half = world.blockBytes / 2;
  return [0, half * world.blockCount].map((start) =>
    bytes.subarray(start + block * half, start + (block + 1) * half),
  );
}

test("memory of the user's own is read and written in place, and by nobody once it was given back", async () => {
  const memory = new Uint8Array(new SharedArrayBuffer(4096 * 4));
  const own = openWorld(native, layout, {
    poolName: `engine-test-${process.pid}-${poolNumber++}`,
    blockBytes: 4096,
    blockCount: 4,
    memory,
  });
  const actor = new Actor(native, layout, own);
  memory.fill(5);
  expect(await actor.run(layout.OPERATION_PUT, [[1, 1]])).toEqual([4096]);
  memory.fill(0);
  expect(await actor.run(layout.OPERATION_GET, [[2, 1]])).toEqual([4096]);
  expect(memory.filter((byte) => byte === 5)).toHaveLength(4096);
  native.regionRelease(own.regionId);
  memory.fill(6);
  expect(await actor.run(layout.OPERATION_GET, [[3, 1]])).toEqual([EngineCode.CLOSED]);
  expect(await actor.run(layout.OPERATION_PUT, [[1, 2]])).toEqual([EngineCode.CLOSED]);
  expect(memory.every((byte) => byte === 6)).toBe(true);
  actor.close();
  expect(native.engineClose(own.engineId, 10_000)).toBe(0);
  native.keySpaceRelease(own.keySpaceId);
  native.sharedRelease(own.hashesSharedId);
});

test("put, exists, get and remove on the main thread", async () => {
  const actor = new Actor(native, layout, world);
  const memory = new Uint8Array(native.regionView(world.regionId));
  segments(memory, 3).forEach((segment, index) => segment.fill(10 + index));

  expect(await actor.run(layout.OPERATION_EXISTS, [[layout.NONE, 7]])).toEqual([0]);
  expect(await actor.run(layout.OPERATION_PUT, [[3, 7]])).toEqual([world.blockBytes]);
  expect(
    await actor.run(layout.OPERATION_EXISTS, [
      [layout.NONE, 7],
      [layout.NONE, 8],
    ]),
  ).toEqual([1, 0]);
  expect(
    await actor.run(layout.OPERATION_GET, [
      [5, 7],
      [6, 8],
    ]),
  ).toEqual([world.blockBytes, EngineCode.OBJECT_NOT_FOUND]);
  expect(actor.tiers(0, 2)).toEqual([
    layout.TIER_MEMORY | layout.CHECK_VERIFIED,
    layout.TIER_UNKNOWN,
  ]);
  expect(segments(memory, 5)).toEqual(segments(memory, 3));
  expect(segments(memory, 6)[0]?.every((byte) => byte === 0)).toBe(true);
  expect(
    await actor.run(layout.OPERATION_REMOVE, [
      [layout.NONE, 7],
      [layout.NONE, 8],
    ]),
  ).toEqual([0, EngineCode.OBJECT_NOT_FOUND]);
  expect(await actor.run(layout.OPERATION_EXISTS, [[layout.NONE, 7]])).toEqual([0]);
  actor.close();
});

test("a worker uses ids that the main thread registered", async () => {
  const worker = new Worker(new URL("./native-worker.mjs", import.meta.url), {
    workerData: { body: "roundTrip", world },
  });
  // Asked for before the message: a fast worker's last message and its end may come in one turn of the loop.
  const ended = once(worker, "exit");
  const [results] = await once(worker, "message");
  expect(results).toEqual({
    put: [world.blockBytes],
    exists: [1],
    get: [world.blockBytes],
    byte: 42,
    remove: [0],
  });
  await ended;
});

test("several batches in flight complete once each, with their tags", async () => {
  const actor = new Actor(native, layout, world);
  for (let slot = 0; slot < 4; slot++) actor.submit(slot, layout.OPERATION_PUT, [[slot, slot]]);
  const taken = [];
  for (let slot = 0; slot < 4; slot++) taken.push(await actor.take());
  expect(taken.map(({ slot, tag, status }) => [slot, tag, status])).toEqual(
    [0, 1, 2, 3].map((slot) => [slot, 1000 + slot, 0]),
  );
  expect(native.engineStatistics(world.engineId)).toMatchObject({
    keys: 4,
    puts: 4,
    batchesInFlight: 0,
  });
  actor.close();
});

test("engines of one pool name share it; another size is refused", async () => {
  const poolName = `shared-${process.pid}`;
  const one = openWorld(native, layout, { poolName });
  const two = openWorld(native, layout, { poolName });
  const first = new Actor(native, layout, one);
  const second = new Actor(native, layout, two);
  new Uint8Array(native.regionView(one.regionId)).fill(99);
  await first.run(layout.OPERATION_PUT, [[0, 1]]);
  expect(await second.run(layout.OPERATION_GET, [[0, 1]])).toEqual([two.blockBytes]);
  expect(new Uint8Array(native.regionView(two.regionId))[0]).toBe(99);
  expect(() => openWorld(native, layout, { poolName, bytesMax: 1 << 20 })).toThrow(
    /bytesMax.*is open in this process/,
  );
  first.close();
  second.close();
  expect(native.engineClose(one.engineId, 10_000)).toBe(0);
  expect(native.engineStatistics(two.engineId).keys).toBe(1);
  expect(native.engineClose(two.engineId, 10_000)).toBe(0);
});

test("keys, removal by prefix and a flipped bit", async () => {
  const actor = new Actor(native, layout, world);
  await actor.run(layout.OPERATION_PUT, [
    [0, 1],
    [1, 2],
    [2, 3],
  ]);
  const key = native.keyOf(world.keySpaceId, 0, 2);
  expect(key).toBe(`model@tp_rank:0@${"02000000".repeat(8)}`);
  expect(native.engineKeys(world.engineId, "", 10).toSorted()).toContain(key);
  expect(native.engineKeys(world.engineId, "", 2)).toHaveLength(2);
  expect(native.engineCorrupt(world.engineId, "absent", 0)).toBe(false);
  expect(native.engineCorrupt(world.engineId, key, 17)).toBe(true);
  expect(await actor.run(layout.OPERATION_GET, [[5, 2]])).toEqual([EngineCode.CHECKSUM_MISMATCH]);
  expect(native.engineRemovePrefix(world.engineId, "model@")).toBe(2);
  expect(await actor.run(layout.OPERATION_REMOVE_ALL, [])).toEqual([]);
  expect(native.engineStatistics(world.engineId)).toMatchObject({ keys: 0, bytesUsed: 0 });
  actor.close();
});

test("after engineClose batches complete with CLOSED", async () => {
  const actor = new Actor(native, layout, world);
  expect(native.engineClose(world.engineId, 1000)).toBe(0);
  expect(await actor.run(layout.OPERATION_PUT, [[0, 1]])).toEqual([EngineCode.CLOSED]);
  expect(native.engineClose(world.engineId, 1000)).toBe(0);
  actor.close();
});
