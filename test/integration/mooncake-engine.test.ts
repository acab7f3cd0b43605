/**
 * Goal: values of every shape go to a real pool and come back byte for byte, also between this engine and the wheel's own Python
 * client; every failure of a single key has its code.
 * Method: a real master, a Python client that owns the memory, an engine in this process that only requests; everything travels
 * over TCP on loopback.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import * as layout from "../../src/blocks/layout.ts";
import { execFileSync } from "node:child_process";
import { MasterAdmin } from "../../src/pool/master-admin.ts";
import type { RunningMaster } from "../../src/pool/master.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { EngineCalls } from "../../src/store/engine-calls.ts";
import {
  engineOptions,
  MooncakeWorld,
  native,
  pattern,
  PythonClient,
  wheel,
} from "./support/mooncake.ts";
import type { Shape } from "./support/mooncake.ts";
import { startTestMaster } from "./support/mooncake-wheel.ts";

const MIB = 1 << 20;
const TIMEOUT_MS = 10_000;
/** Group number to shape: one segment, two, many small, many larger, and one value larger than a staging buffer of small segments. */
const SHAPES: readonly Shape[] = [
  { segments: 1, segmentBytes: 4096 },
  { segments: 2, segmentBytes: 1000 },
  { segments: 64, segmentBytes: 1024 },
  { segments: 8, segmentBytes: 256 * 1024 },
  { segments: 160, segmentBytes: 128 * 1024 },
];
const POOL_BYTES = 192 * MIB;

let master: RunningMaster;
let python: PythonClient;
let world: MooncakeWorld;
let calls: EngineCalls;

beforeAll(async () => {
  master = await startTestMaster({ mooncakeFolder: wheel.mooncakeFolder });
  const address = `127.0.0.1:${master.port}`;
  python = await PythonClient.start(address, POOL_BYTES);
  world = new MooncakeWorld(engineOptions(address), { shapes: SHAPES, blockCount: 8 });
  calls = new EngineCalls({ native, engineId: world.engineId });
  await world.until("open");
});
afterAll(async () => {
  expect(world.close()).toBe(0);
  await python.kill();
  await master.process.stop();
});

test("values of every shape come back as they were, in one batch of mixed groups", async () => {
  const entries = SHAPES.map((_, group) => [group, 100 + group, group] as const);
  const values = entries.map(([block, , group]) => world.fill(group, block, group));
  expect(await world.exists(entries.map(([, row]) => row))).toEqual(SHAPES.map(() => 0));
  expect(await world.put(entries)).toEqual(values.map((value) => value.length));
  expect(await world.exists([...entries.map(([, row]) => row), 199])).toEqual([1, 1, 1, 1, 1, 0]);
  const into = entries.map(([, row, group]) => [7, row, group] as const);
  expect(await world.get(into)).toEqual(values.map((value) => value.length));
  for (const [index, value] of values.entries())
    expect(Buffer.compare(world.read(index, 7), value), `group ${index}`).toBe(0);
  // A put of what is there succeeds and leaves it.
  world.fill(0, 0, 77);
  expect(await world.put([[0, 100, 0]])).toEqual([4096]);
  expect(await world.get([[6, 100, 0]])).toEqual([4096]);
  expect(Buffer.compare(world.read(0, 6), values[0] ?? new Uint8Array())).toBe(0);
});

test("what the wheel's own client writes is read here, and the other way round", async () => {
  for (const [group, { segments, segmentBytes }] of SHAPES.slice(0, 4).entries()) {
    const sizes = Array.from({ length: segments }, () => segmentBytes);
    const theirs = pattern(world.valueBytes(group), 500 + group);
    expect(await python.put(world.key(200 + group), theirs, sizes)).toBe(0);
    expect(await world.get([[1, 200 + group, group]])).toEqual([theirs.length]);
    expect(Buffer.compare(world.read(group, 1), theirs)).toBe(0);

    const ours = world.fill(group, 2, 600 + group);
    expect(await world.put([[2, 210 + group, group]])).toEqual([ours.length]);
    expect(await python.exist([world.key(210 + group)])).toEqual([1]);
    const read = await python.get(world.key(210 + group), sizes);
    expect(read.result).toBe(ours.length);
    expect(Buffer.compare(read.value, ours)).toBe(0);
    // A value knows nothing of its segments: one buffer reads it as well.
    const whole = await python.get(world.key(210 + group), [ours.length]);
    expect(Buffer.compare(whole.value, ours)).toBe(0);
  }
});

test("absent, shorter and longer values are told apart, and good ones beside them arrive", async () => {
  await python.put(world.key(300), pattern(4000, 1), [4000]);
  await python.put(world.key(301), pattern(4200, 2), [4200]);
  const good = pattern(4096, 3);
  await python.put(world.key(302), good, [4096]);
  expect(
    await world.get([
      [0, 300],
      [1, 301],
      [2, 302],
      [3, 303],
    ]),
  ).toEqual([
    EngineCode.BUFFER_LARGER,
    EngineCode.BUFFER_SMALLER,
    4096,
    EngineCode.OBJECT_NOT_FOUND,
  ]);
  // What the sizes are, in the place of the tiers: one and the same wrong size under many keys closes the pool.
  expect(world.actor.tiers(0, 2)).toEqual([4000, 4200]);
  expect(Buffer.compare(world.read(0, 2), good)).toBe(0);
});

test("a key that goes between lookup and load is a miss", async () => {
  world.fill(2, 3, 9);
  await world.put([[3, 310, 2]]);
  expect(await world.exists([310])).toEqual([1]);
  expect(await python.remove(world.key(310))).toBe(0);
  expect(await world.get([[4, 310, 2]])).toEqual([EngineCode.OBJECT_NOT_FOUND]);
});

test("several batches of all kinds in flight at once", async () => {
  const rows = Array.from({ length: 40 }, (_, index) => 1000 + index);
  for (let block = 0; block < 8; block++) world.fill(2, block, 40 + block);
  const entries = rows.map((row, index) => [index % 8, row, 2] as const);
  world.actor.submit(0, layout.OPERATION_PUT, entries);
  world.actor.submit(
    1,
    layout.OPERATION_EXISTS,
    rows.map((row) => [layout.NONE, row] as const),
  );
  world.actor.submit(2, layout.OPERATION_GET, [[5, 310, 2]]);
  world.actor.submit(3, layout.OPERATION_PUT, [[0, 1100, 0]]);
  const taken = [];
  for (let count = 0; count < 4; count++) taken.push(await world.actor.take());
  expect(new Map(taken.map(({ slot, status }) => [slot, status]))).toEqual(
    new Map([0, 1, 2, 3].map((slot) => [slot, 0])),
  );
  expect(await world.exists(rows)).toEqual(rows.map(() => 1));
  expect(native.engineStatistics(world.engineId).batchesInFlight).toBe(0);
});

test("single values, removal of a prefix's keys and of all", async () => {
  const value = new TextEncoder().encode('{"format":1}');
  const name = "model@mooncake-kv-identity";
  expect(await calls.getValue(name, TIMEOUT_MS)).toEqual({ ok: true, value: null });
  expect(await calls.putValue(name, value, TIMEOUT_MS)).toMatchObject({ ok: true });
  expect(await calls.putValue(name, new Uint8Array([1]), TIMEOUT_MS)).toEqual({
    ok: true,
    value: "present",
  });
  expect(await calls.getValue(name, TIMEOUT_MS)).toEqual({ ok: true, value });
  expect(await calls.health(TIMEOUT_MS)).toEqual({ ok: true, value: true });

  // Letters that mean something in a pattern; nobody has read these keys, so none is leased.
  for (const key of ["a.b+c@1", "a.b+c@2", "aXb+c@3"]) await calls.putValue(key, value, TIMEOUT_MS);
  expect(await calls.removePrefix("a.b+c@", TIMEOUT_MS)).toEqual({ ok: true, value: 2 });
  expect(await python.exist(["a.b+c@1", "a.b+c@2", "aXb+c@3"])).toEqual([0, 0, 1]);

  expect(await calls.removeAll(true, TIMEOUT_MS)).toMatchObject({ ok: true });
  expect(await python.exist(["aXb+c@3", name, world.key(302)])).toEqual([0, 0, 0]);
});

test("a cache_prefix names the keys of its own deployments, whatever letters it has, and never leased ones", async () => {
  const value = new Uint8Array([1, 2, 3]);
  const prefix = "a.b+(c|d)[e]{2}^$\\w?*";
  const ranks = "tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@00ff";
  const own = [
    `${prefix}@model@${ranks}`,
    `${prefix}@model@${ranks}#xxh3`,
    `${prefix}@model@store_tp:2@store_pp:1@store_format:f@${ranks}`,
    `${prefix}@model@mooncake-kv-identity`,
  ];
  const others = [
    `${prefix}@${ranks}`,
    `${prefix}@store_tp:2@store_pp:1@store_format:f@${ranks}`,
    `${prefix}@mooncake-kv-identity`,
    `${prefix}2@model@${ranks}`,
    `${prefix}@longer@model@${ranks}`,
    `aXb+c@model@${ranks}`,
  ];
  for (const key of [...own, ...others]) await calls.putValue(key, value, TIMEOUT_MS);
  const scope = { operation: "removeCachePrefix", prefix } as const;
  expect(await python.exist(own.slice(0, 1))).toEqual([1]);
  const removed = (count: number) => ({ ok: true, value: { removed: count, kept: null } });
  expect(await calls.remove(scope, true, TIMEOUT_MS)).toEqual(removed(2));
  expect(await python.exist(own.slice(1, 3))).toEqual([1, 0]);
  await calls.removeKey(own[1] ?? "", TIMEOUT_MS, true);
  await calls.putValue(own[1] ?? "", value, TIMEOUT_MS);
  expect(await calls.remove(scope, false, TIMEOUT_MS)).toEqual(removed(1));
  expect(await python.exist([...own, ...others])).toEqual([1, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
  await calls.removeAll(true, TIMEOUT_MS);
});

test("a lookup leases keys: removals leave them unless they are forced", async () => {
  const value = new Uint8Array([1, 2, 3]);
  const keys = ["leased@1", "leased@2", "leased@3"];
  for (const key of keys) await calls.putValue(key, value, TIMEOUT_MS);
  expect(await python.exist(keys)).toEqual([1, 1, 1]);
  expect(await calls.removePrefix("leased@", TIMEOUT_MS)).toEqual({ ok: true, value: 0 });
  expect(await calls.removeKey("leased@1", TIMEOUT_MS)).toMatchObject({
    ok: false,
    code: EngineCode.ENGINE_ERROR,
    text: expect.stringContaining("leased"),
  });
  expect(await calls.removeKey("leased@1", TIMEOUT_MS, true)).toEqual({ ok: true, value: true });
  expect(await calls.removeKey("leased@1", TIMEOUT_MS, true)).toEqual({ ok: true, value: false });
  expect(await calls.removePrefix("leased@", TIMEOUT_MS, true)).toEqual({ ok: true, value: 2 });
  expect(await python.exist(keys)).toEqual([0, 0, 0]);

  await calls.putValue("leased@4", value, TIMEOUT_MS);
  expect(await python.exist(["leased@4"])).toEqual([1]);
  await calls.removeAll(false, TIMEOUT_MS);
  expect(await python.exist(["leased@4"])).toEqual([1]);
  await calls.removeAll(true, TIMEOUT_MS);
  expect(await python.exist(["leased@4"])).toEqual([0]);
});

test("gets tell the tier of each value when they are to, and say unknown otherwise", async () => {
  const options = engineOptions(`127.0.0.1:${master.port}`, { reportTiers: true });
  const telling = new MooncakeWorld(options, { shapes: SHAPES, blockCount: 8 });
  try {
    await telling.until("open");
    world.fill(0, 0, 900);
    await world.put([[0, 900, 0]]);
    const asked = [
      [1, 900, 0],
      [2, 901, 0],
    ] as const;
    const results = [world.valueBytes(0), EngineCode.OBJECT_NOT_FOUND];
    expect(await world.get(asked)).toEqual(results);
    expect([...world.actor.tiers(0, 2)]).toEqual([layout.TIER_UNKNOWN, layout.TIER_UNKNOWN]);
    expect(await telling.get(asked)).toEqual(results);
    expect([...telling.actor.tiers(0, 2)]).toEqual([layout.TIER_MEMORY, layout.TIER_UNKNOWN]);
  } finally {
    expect(telling.close()).toBe(0);
  }
});

test("without a name of its own a member registers under the routing table's address, which serves beside a loopback master", async () => {
  const ask = `
import socket
for family, outside in ((socket.AF_INET, "8.8.8.8"), (socket.AF_INET6, "2001:4860:4860::8888")):
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, 80))
            print(probe.getsockname()[0])
            break
    except OSError:
        pass
else:
    print("127.0.0.1")`;
  const address = execFileSync(wheel.path, ["-c", ask], { encoding: "utf8" }).trim();
  const giving = { localHostname: "", globalSegmentBytes: 16 * MIB };
  const options = engineOptions(`127.0.0.1:${master.port}`, giving);
  const member = new MooncakeWorld(options, { shapes: SHAPES, blockCount: 8 });
  try {
    await member.until("open");
    const segments = await new MasterAdmin({
      host: "127.0.0.1",
      port: master.metricsPort,
    }).segments();
    const own = segments.filter(({ name }) => name !== python.hostname);
    expect(own.map(({ name }) => name.slice(0, name.lastIndexOf(":")))).toEqual([address]);
    const preferredSegment = own[0]?.name ?? "";
    const intoOwn = engineOptions(`127.0.0.1:${master.port}`, { preferredSegment });
    const writer = new MooncakeWorld(intoOwn, { shapes: SHAPES, blockCount: 8 });
    try {
      await writer.until("open");
      const value = writer.fill(1, 0, 5);
      expect(await writer.put([[0, 950, 1]])).toEqual([value.length]);
      expect(await world.get([[3, 950, 1]])).toEqual([value.length]);
      expect(Buffer.compare(world.read(1, 3), value)).toBe(0);
    } finally {
      expect(writer.close()).toBe(0);
    }
  } finally {
    expect(member.close()).toBe(0);
  }
});

test("no room is back-pressure: its own code for the key, and the batch itself is good", async () => {
  await calls.removeAll(true, TIMEOUT_MS);
  const bytes = world.valueBytes(4);
  const rows = Array.from({ length: Math.ceil(POOL_BYTES / bytes) + 2 }, (_, index) => 700 + index);
  const results: number[] = [];
  for (const row of rows) {
    results.push(...(await world.put([[0, row, 4]])));
    // Who asks for a key leases it for some seconds: otherwise the master makes room by eviction.
    await world.exists([row]);
  }
  expect(results[0]).toBe(bytes);
  expect(new Set(results)).toEqual(new Set([bytes, EngineCode.NO_AVAILABLE_HANDLE]));
  expect(native.engineStatistics(world.engineId).putRefusals).toBeGreaterThan(0);
  expect(world.state.state).toBe("open");
  await calls.removeAll(true, TIMEOUT_MS);
});
