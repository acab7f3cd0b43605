/**
 * Goal: with an owner that has an SSD tier, more than its memory holds is kept; blocks that come back from disk are the same bytes,
 * and every get says from which tier they came. What was changed on the disk, or cannot be read any more, is not used, takes no good
 * block along, is a miss, and is replaced by the next put.
 * Method: a real master and owner with little memory and a folder, an engine that writes twice that memory, no
 * faster than the owner's disk takes it, and reads all of it; then its files are changed or cut in half.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as layout from "../../src/blocks/layout.ts";
import { startPool } from "../../src/pool/pool.ts";
import type { RunningPool } from "../../src/pool/pool.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { engineOptions, MooncakeWorld, pattern, wheel } from "./support/mooncake.ts";

const MIB = 1 << 20;
const MEMORY_BYTES = 16 * MIB;
/** One value a block. */
const SHAPE = { segments: 4, segmentBytes: 128 * 1024 };
const VALUES = (2 * MEMORY_BYTES) / (SHAPE.segments * SHAPE.segmentBytes);

const folder = mkdtempSync(join(tmpdir(), "mooncake-kv-ssd-"));
let pool: RunningPool;
let world: MooncakeWorld;

beforeAll(async () => {
  pool = await startPool({
    mooncakeFolder: wheel.mooncakeFolder,
    port: 0,
    owners: 1,
    memoryBytes: MEMORY_BYTES,
    localBufferBytes: 16 * MIB,
    protocol: "tcp",
    deviceName: "",
    ssdFolder: folder,
    stagingBytes: 64 * MIB,
    // Its own rhythm is 10 s and buckets of 256 MiB; what is evicted before its turn is lost.
    ownerEnvironment: {
      MOONCAKE_OFFLOAD_HEARTBEAT_INTERVAL_SECONDS: "1",
      // Eight values with their checksums.
      MOONCAKE_OFFLOAD_BUCKET_KEYS_LIMIT: "24",
      MOONCAKE_OFFLOAD_BUCKET_SIZE_LIMIT_BYTES: String(8 * MIB),
    },
    masterFlags: { default_kv_lease_ttl: "500" },
    logFolder: null,
  });
  const options = engineOptions(pool.store.master_server_address, {
    enableOffload: true,
    reportTiers: true,
    verify: "when_present",
    preferredSegment: pool.owners[0]?.segment ?? "",
    bytesPerCallMax: 48 * MIB,
  });
  world = new MooncakeWorld(options, { shapes: [SHAPE], blockCount: 8 });
  await world.until("open");
});
afterAll(async () => {
  expect(world.close()).toBe(0);
  await pool.stop();
  rmSync(folder, { recursive: true });
});

function bytesOnDisk(): number {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => statSync(join(folder, name)))
    .reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
}

test("of twice the owner's memory most comes back, all of it as it was, and much of it from disk", async () => {
  const bytes = world.valueBytes(0);
  for (let row = 0; row < VALUES; row += 8) {
    const entries = Array.from({ length: 8 }, (_, block) => [block, row + block] as const);
    for (const [block, value] of entries) world.fill(0, block, value);
    // No room is back-pressure: the master makes some by dropping from memory what the disk has.
    for (let tries = 0; (await world.put(entries)).some((result) => result !== bytes); tries++) {
      expect(tries).toBeLessThan(300);
      await sleep(50);
    }
    // A batch that is pushed out of memory before its turn never gets to the disk, and no later one waits for it.
    const before = bytesOnDisk();
    for (let tries = 0; bytesOnDisk() === before && tries < 60; tries++) await sleep(50);
  }
  const tiers = [0, 0, 0];
  let differing = 0;
  for (let at = 0; at < VALUES; at += 8) {
    const rows = Array.from({ length: 8 }, (_, index) => at + index);
    const results = await world.get(rows.map((row, block) => [block, row]));
    rows.forEach((row, block) => {
      if (results[block] === EngineCode.OBJECT_NOT_FOUND) return;
      expect(results[block]).toBe(bytes);
      const tier = (world.actor.tiers(0, rows.length)[block] ?? 0) & layout.TIER_MASK;
      tiers[tier] = (tiers[tier] ?? 0) + 1;
      if (Buffer.compare(world.read(0, block), pattern(bytes, row)) !== 0) differing++;
    });
  }
  expect(differing).toBe(0);
  expect(tiers[layout.TIER_MEMORY]).toBeGreaterThan(0);
  expect(tiers[layout.TIER_UNKNOWN]).toBe(0);
  expect((tiers[layout.TIER_DISK] ?? 0) * bytes).toBeGreaterThan(MEMORY_BYTES / 2);
});

test("values on a disk that are changed or cut off are refused one by one, and put anew", async () => {
  const bytes = world.valueBytes(0);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".bucket"))
    .map((name) => join(folder, name));
  files.forEach((file, index) => {
    const { size } = statSync(file);
    if (index % 2 === 0) return truncateSync(file, size >> 1);
    const content = readFileSync(file);
    // A byte of each value.
    for (let at = bytes >> 1; at < size; at += bytes) content[at]! ^= 1;
    writeFileSync(file, content);
  });
  const found = new Map<number, number[]>();
  for (let at = 0; at < VALUES; at += 8) {
    const rows = Array.from({ length: 8 }, (_, index) => at + index);
    const results = await world.get(rows.map((row, block) => [block, row]));
    rows.forEach((row, block) => {
      const result = results[block] ?? 0;
      found.set(result, [...(found.get(result) ?? []), row]);
      if (result === bytes)
        expect(Buffer.compare(world.read(0, block), pattern(bytes, row))).toBe(0);
    });
  }
  const { CHECKSUM_MISMATCH, OBJECT_NOT_FOUND, VALUE_UNREADABLE } = EngineCode;
  const rowsOf = (code: number): number[] => found.get(code) ?? [];
  for (const code of [CHECKSUM_MISMATCH, VALUE_UNREADABLE])
    expect(rowsOf(code).length, `${code}`).toBeGreaterThan(4);
  expect(rowsOf(bytes).length).toBeGreaterThan(0);
  const known: number[] = [bytes, OBJECT_NOT_FOUND, CHECKSUM_MISMATCH, VALUE_UNREADABLE];
  expect([...found.keys()].filter((code) => !known.includes(code))).toEqual([]);
  for (const code of [CHECKSUM_MISMATCH, VALUE_UNREADABLE]) {
    const [row = 0] = rowsOf(code);
    expect(await world.exists([row])).toEqual([0]);
    world.fill(0, 0, row);
    for (let tries = 0; (await world.put([[0, row]]))[0] !== bytes; tries++) {
      expect(tries).toBeLessThan(300);
      await sleep(50);
    }
    expect(await world.get([[1, row]])).toEqual([bytes]);
    expect(Buffer.compare(world.read(0, 1), pattern(bytes, row))).toBe(0);
  }
});
