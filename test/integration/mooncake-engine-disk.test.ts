/**
 * Goal: with an owner that has an SSD tier, more than its memory holds is kept; blocks that come back from disk are the same bytes,
 * and every get says from which tier they came.
 * Method: a real master and owner with little memory and a folder, an engine that writes twice that memory, no
 * faster than the owner's disk takes it, and reads all of it.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
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
      MOONCAKE_OFFLOAD_BUCKET_KEYS_LIMIT: "8",
      MOONCAKE_OFFLOAD_BUCKET_SIZE_LIMIT_BYTES: String(8 * MIB),
    },
    logFolder: null,
  });
  const options = engineOptions(pool.store.master_server_address, {
    enableOffload: true,
    reportTiers: true,
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
      const tier = world.actor.tiers(0, rows.length)[block] ?? 0;
      tiers[tier] = (tiers[tier] ?? 0) + 1;
      if (Buffer.compare(world.read(0, block), pattern(bytes, row)) !== 0) differing++;
    });
  }
  expect(differing).toBe(0);
  expect(tiers[layout.TIER_MEMORY]).toBeGreaterThan(0);
  expect(tiers[layout.TIER_UNKNOWN]).toBe(0);
  expect((tiers[layout.TIER_DISK] ?? 0) * bytes).toBeGreaterThan(MEMORY_BYTES / 2);
});
