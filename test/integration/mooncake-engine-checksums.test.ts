/**
 * Goal: values that were changed in the pool are never used; good ones are, whoever stored them: bytes of members that differ, values
 * put anew by a client without checksums, values without any. What was refused is a miss until it is removed, no reader's lease is
 * passed, and the next put stores it anew.
 * Method: engines of each mode over a real master and owner; the wheel's own client changes values. Leases last a second.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { setTimeout as sleep } from "node:timers/promises";
import * as layout from "../../src/blocks/layout.ts";
import type { PoolVerify } from "../../src/native/binding.ts";
import type { RunningMaster } from "../../src/pool/master.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { engineOptions, MooncakeWorld, PythonClient, wheel } from "./support/mooncake.ts";
import { startTestMaster } from "./support/mooncake-wheel.ts";

const MIB = 1 << 20;
/** Gathered, as it lies, and cut into pieces. */
const SHAPES = [
  { segments: 16, segmentBytes: 4096 },
  { segments: 2, segmentBytes: 100_000 },
  { segments: 1, segmentBytes: 1_500_000 },
];
const LEASE_MS = 1_000;
const TRIES = 200;

let master: RunningMaster;
let owner: PythonClient;
let nextRow = 1;
const worlds: MooncakeWorld[] = [];

beforeAll(async () => {
  master = await startTestMaster({
    mooncakeFolder: wheel.mooncakeFolder,
    flags: { default_kv_lease_ttl: String(LEASE_MS) },
  });
  owner = await PythonClient.start(`127.0.0.1:${master.port}`, 64 * MIB);
});
afterEach(() => {
  for (const world of worlds.splice(0)) expect(world.close()).toBe(0);
});
afterAll(async () => {
  await owner.kill();
  await master.process.stop();
});

async function member(verify: PoolVerify): Promise<MooncakeWorld> {
  const options = engineOptions(`127.0.0.1:${master.port}`, { verify });
  const world = new MooncakeWorld(options, { shapes: SHAPES, blockCount: 8 });
  worlds.push(world);
  await world.until("open");
  return world;
}

/** What a get of the row says of the value's checksum: its result, and whether it was verified. */
async function get(world: MooncakeWorld, row: number, group = 0): Promise<[number, boolean]> {
  const [result = 0] = await world.get([[1, row, group]]);
  return [result, ((world.actor.tiers(0, 1)[0] ?? 0) & layout.CHECK_VERIFIED) !== 0];
}

async function until(what: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await what()); tries++) {
    expect(tries).toBeLessThan(TRIES);
    await sleep(50);
  }
}

/** The wheel's client replaces a value, readers or not, by another of its size. */
async function replace(world: MooncakeWorld, row: number, value: Uint8Array): Promise<void> {
  await owner.remove(world.key(row));
  expect(await owner.put(world.key(row), value, [value.length])).toBe(0);
}

test("a value fits its checksum whatever its segments, for its writer and for others; one of before is used and counted as such", async () => {
  const writer = await member("when_present");
  const plain = await member("off");
  const strict = await member("require");
  for (const group of SHAPES.keys()) {
    const row = nextRow++;
    const value = writer.fill(group, 0, row);
    expect(await writer.put([[0, row, group]])).toEqual([value.length]);
    for (const reader of [writer, strict]) {
      expect(await reader.exists([row])).toEqual([1]);
      expect(await get(reader, row, group)).toEqual([value.length, true]);
      expect(Buffer.compare(reader.read(group, 1), value)).toBe(0);
    }
    expect(await get(plain, row, group)).toEqual([value.length, false]);

    const bare = nextRow++;
    plain.fill(group, 0, bare);
    expect(await plain.put([[0, bare, group]])).toEqual([value.length]);
    expect(await writer.exists([bare])).toEqual([1]);
    expect(await get(writer, bare, group)).toEqual([value.length, false]);
    expect(await strict.exists([bare])).toEqual([layout.EXISTS_UNCHECKED]);
    expect(await get(strict, bare, group)).toEqual([EngineCode.OBJECT_NOT_FOUND, false]);
    // A put that finds the key taken says nothing of the value that is there.
    expect(await writer.put([[0, bare, group]])).toEqual([value.length]);
    expect(await get(writer, bare, group)).toEqual([value.length, false]);
  }
});

test("replaced bytes are refused by each member, are a miss meanwhile, go when no lease is left, and are put anew", async () => {
  const writer = await member("when_present");
  const other = await member("when_present");
  for (const group of SHAPES.keys()) {
    const row = nextRow++;
    const value = writer.fill(group, 0, row);
    expect(await writer.put([[0, row, group]])).toEqual([value.length]);
    const wrong = value.slice();
    wrong[wrong.length >> 1]! ^= 1;
    await replace(writer, row, wrong);
    const formerly = writer.fill(group, 1, 99);
    expect(await get(writer, row, group)).toEqual([EngineCode.CHECKSUM_MISMATCH, false]);
    // A gathered value that is refused never reaches its block.
    if (group === 0) expect(Buffer.compare(writer.read(group, 1), formerly)).toBe(0);
    expect(await get(other, row, group)).toEqual([EngineCode.CHECKSUM_MISMATCH, false]);
    expect(await writer.exists([row])).toEqual([0]);
    expect(await other.exists([row])).toEqual([0]);
    // Both have leased it.
    writer.fill(group, 0, row);
    expect(await writer.put([[0, row, group]])).toEqual([EngineCode.OBJECT_HAS_LEASE]);
    await until(async () => (await writer.put([[0, row, group]]))[0] === value.length);
    expect(await get(writer, row, group)).toEqual([value.length, true]);
    expect(Buffer.compare(writer.read(group, 1), value)).toBe(0);
  }
});

test("what nobody puts anew is removed all the same", async () => {
  const writer = await member("when_present");
  const row = nextRow++;
  const value = writer.fill(0, 0, row);
  await writer.put([[0, row]]);
  await replace(writer, row, value.toReversed());
  expect((await get(writer, row))[0]).toBe(EngineCode.CHECKSUM_MISMATCH);
  await until(async () => !(await master.admin.keys()).includes(writer.key(row)));
  await until(async () => (await get(writer, row))[0] === EngineCode.OBJECT_NOT_FOUND);
});

test("two members with different good bytes for one key, one after the other: both are good", async () => {
  const first = await member("when_present");
  const second = await member("when_present");
  const row = nextRow++;
  const one = first.fill(0, 0, row);
  const two = second.fill(0, 0, row + 1_000);
  await first.put([[0, row]]);
  // Evicted without its checksum, and stored anew.
  await owner.remove(first.key(row));
  expect(await second.put([[0, row]])).toEqual([two.length]);
  for (const reader of [first, second]) {
    expect(await get(reader, row)).toEqual([two.length, true]);
    expect(Buffer.compare(reader.read(0, 1), two)).toBe(0);
  }
  await owner.remove(first.key(row));
  expect(await first.put([[0, row]])).toEqual([one.length]);
  expect(await get(second, row)).toEqual([one.length, true]);
});

test("a good value put anew by a client without checksums is refused once at most", async () => {
  const writer = await member("when_present");
  const plain = await member("off");
  const row = nextRow++;
  writer.fill(0, 0, row);
  await writer.put([[0, row]]);
  await owner.remove(writer.key(row));
  const value = plain.fill(0, 0, row + 1_000);
  await plain.put([[0, row]]);
  expect((await get(writer, row))[0]).toBe(EngineCode.CHECKSUM_MISMATCH);
  await until(async () => !(await master.admin.keys()).includes(writer.key(row)));
  await plain.put([[0, row]]);
  await until(async () => (await writer.exists([row]))[0] === 1);
  expect(await get(writer, row)).toEqual([value.length, false]);
  expect(await get(writer, row)).toEqual([value.length, false]);
});

test("a checksum whose named key was evicted alone is read, and one that is gone says nothing against its value", async () => {
  const writer = await member("when_present");
  const row = nextRow++;
  const value = writer.fill(0, 0, row);
  await writer.put([[0, row]]);
  const keys = (await master.admin.keys()).filter((key) => key.startsWith(`${writer.key(row)}#`));
  const [mark = "", named = ""] = keys.toSorted();
  expect(named.startsWith(`${mark}=`)).toBe(true);
  await owner.remove(named);
  expect(await get(writer, row)).toEqual([value.length, true]);
  await replace(writer, row, value.toReversed());
  expect((await get(writer, row))[0]).toBe(EngineCode.CHECKSUM_MISMATCH);

  const other = nextRow++;
  writer.fill(0, 0, other);
  await writer.put([[0, other]]);
  for (const key of await master.admin.keys())
    if (key.startsWith(`${writer.key(other)}#`)) await owner.remove(key);
  expect(await get(writer, other)).toEqual([value.length, false]);
});

test("keys of checksums begin with the block's key, so that a reset by prefix takes them along", async () => {
  const writer = await member("when_present");
  const row = nextRow++;
  writer.fill(0, 0, row);
  await writer.put([[0, row]]);
  const keys = (await master.admin.keys()).filter((key) => key.startsWith(writer.key(row)));
  expect(keys).toHaveLength(3);
});
