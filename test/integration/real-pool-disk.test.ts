/**
 * Goal: a pool whose owner has an SSD keeps more than its memory; blocks that come back from disk are the same bytes; the tier log
 * says how many came from where, and no batch of a load asks for more than the owner can stage.
 * Method: a real master and owner with 16 MiB of memory, a folder and a staging buffer of 4 MiB; a whole runtime in a process of its
 * own saves three times the memory and loads all of it with VLLM_MOONCAKE_STORE_TIER_LOG=1. Its log is read line by line.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { stagingBudget, stagingBytes } from "../../src/store/disk-split.ts";
import type { RunningPool } from "../../src/pool/pool.ts";
import { startTestPool } from "./support/mooncake-wheel.ts";
import { writeStore } from "./support/real-pool.ts";
import { LOOP_BLOCK, LOOP_LAYER_BYTES, PoolLoop } from "./support/real-pool-process.ts";
import type { LoopAnswer } from "./support/real-pool-process.ts";

const MIB = 1 << 20;
const MEMORY_BYTES = 16 * MIB;
const STAGING_BYTES = 4 * MIB;
const LAYERS = 4;
const VALUE_BYTES = LAYERS * LOOP_LAYER_BYTES;
/** Blocks of one prompt: more than may be staged at a time. */
const BLOCKS = 16;
const PROMPTS = (3 * MEMORY_BYTES) / (BLOCKS * VALUE_BYTES);
/** Keys that go to disk together. */
const BUCKET_KEYS = 4;
const TRIES = 40;
const TEST_TIMEOUT_MS = 240_000;

let folder: string;
let pool: RunningPool;
let storePath: string;
let loop: PoolLoop | undefined;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "real-pool-disk-"));
  pool = await startTestPool({
    memoryBytes: MEMORY_BYTES,
    ssdFolder: join(folder, "ssd"),
    stagingBytes: STAGING_BYTES,
    // What somebody has looked up stays in memory so long, 5 s otherwise.
    masterFlags: { default_kv_lease_ttl: "500" },
    ownerEnvironment: {
      // Its own rhythm is 10 s and buckets of 256 MiB.
      MOONCAKE_OFFLOAD_HEARTBEAT_INTERVAL_SECONDS: "1",
      MOONCAKE_OFFLOAD_BUCKET_KEYS_LIMIT: String(BUCKET_KEYS),
      MOONCAKE_OFFLOAD_BUCKET_SIZE_LIMIT_BYTES: String(BUCKET_KEYS * VALUE_BYTES),
    },
  });
  storePath = writeStore(folder, pool.store);
});
afterAll(async () => {
  await loop?.kill();
  await pool?.stop();
  rmSync(folder, { recursive: true });
});

async function startLoop(): Promise<PoolLoop> {
  loop = await PoolLoop.start({
    storePath,
    blockCount: 2 * BLOCKS + 4,
    layers: LAYERS,
    environment: {
      MOONCAKE_PREFERRED_SEGMENT: pool.owners[0]?.segment ?? "",
      MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "127.0.0.1",
      MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES: String(STAGING_BYTES),
      VLLM_MOONCAKE_STORE_TIER_LOG: "1",
    },
  });
  return loop;
}

function bytesOnDisk(): number {
  return readdirSync(join(folder, "ssd"), { recursive: true, encoding: "utf8" })
    .map((name) => statSync(join(folder, "ssd", name), { throwIfNoEntry: false }))
    .reduce((sum, file) => sum + (file?.isFile() === true ? file.size : 0), 0);
}

/** Saves a prompt until all its blocks are in the pool (what has no room is refused, and comes with a later request), most on disk. */
async function saveAll(writer: PoolLoop, seed: number): Promise<void> {
  const before = bytesOnDisk();
  for (let tries = 0; ; tries++) {
    const { differing } = await writer.request({ seed, blocks: BLOCKS });
    expect(differing).toBe(0);
    if ((await writer.find({ seed, blocks: BLOCKS })) === BLOCKS * LOOP_BLOCK) break;
    expect(tries).toBeLessThan(TRIES);
    await sleep(250);
  }
  // Blocks that are pushed out of memory before their turn never get to disk; the last bucket waits for more keys.
  const most = (BLOCKS - BUCKET_KEYS) * VALUE_BYTES;
  for (let tries = 0; bytesOnDisk() < before + most && tries < TRIES; tries++) await sleep(100);
}

interface TierLine {
  readonly batchKeys: number;
  readonly memoryKeys: number;
  readonly diskKeys: number;
  readonly unknownKeys: number;
  readonly failedKeys: number;
  readonly bytesByTier: {
    readonly memory: number;
    readonly disk: number;
    readonly unknown: number;
  };
}

test(
  "three times the owner's memory is kept, comes back as it was, and the log says from where",
  async () => {
    const writer = await startLoop();
    for (let seed = 1; seed <= PROMPTS; seed++) await saveAll(writer, seed);
    expect(await writer.stop()).toBe(0);
    expect(bytesOnDisk()).toBeGreaterThan(1.5 * MEMORY_BYTES);

    const reader = await startLoop();
    const answers: LoopAnswer[] = [];
    for (let seed = 1; seed <= PROMPTS; seed++)
      answers.push(await reader.request({ seed, blocks: BLOCKS }));
    // What it has written is here when it has ended.
    expect(await reader.stop()).toBe(0);
    expect(answers.map(({ differing }) => differing)).toEqual(answers.map(() => 0));
    const kept = answers.reduce((sum, each) => sum + each.kept / LOOP_BLOCK, 0);
    expect(kept * VALUE_BYTES).toBeGreaterThan(1.5 * MEMORY_BYTES);

    const lines = reader.logged("Mooncake load tier summary") as unknown as TierLine[];
    const sum = (count: (line: TierLine) => number): number =>
      lines.reduce((all, line) => all + count(line), 0);
    const keys = sum(({ batchKeys }) => batchKeys);
    const disk = sum(({ diskKeys }) => diskKeys);
    expect(disk * VALUE_BYTES).toBeGreaterThan(MEMORY_BYTES / 2);
    expect(sum(({ memoryKeys }) => memoryKeys) + disk).toBe(keys);
    expect(sum(({ unknownKeys }) => unknownKeys)).toBe(0);
    expect(keys - sum(({ failedKeys }) => failedKeys)).toBeGreaterThanOrEqual(kept);
    const bytes = sum(({ bytesByTier }) => bytesByTier.memory + bytesByTier.disk);
    expect(bytes).toBe((keys - sum(({ failedKeys }) => failedKeys)) * VALUE_BYTES);

    // No batch asks for more than may be staged, and the largest uses what it may.
    const { usableBytes } = stagingBudget(STAGING_BYTES);
    const staged = lines.map(({ batchKeys }) => batchKeys * stagingBytes(VALUE_BYTES));
    expect(Math.max(...staged)).toBeLessThanOrEqual(usableBytes);
    expect(Math.max(...staged)).toBeGreaterThan(usableBytes - stagingBytes(VALUE_BYTES));
    expect(lines.length).toBeGreaterThan(PROMPTS);
  },
  TEST_TIMEOUT_MS,
);
