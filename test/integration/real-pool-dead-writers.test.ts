/**
 * Goal: a process that is killed in the middle of its puts leaves no wrong byte behind: what others find of its prompt is whole and
 * right, the rest is computed and saved by them.
 * Method: a serving loop in a process of its own is killed with signal 9 at several moments of a save of 32 MiB, on a real master
 * and owner; another process then asks for the same prompt and compares every byte that it gets.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunningPool } from "../../src/pool/pool.ts";
import { startTestPool } from "./support/mooncake-wheel.ts";
import { writeStore } from "./support/real-pool.ts";
import { LOOP_BLOCK, PoolLoop } from "./support/real-pool-process.ts";

const MIB = 1 << 20;
const BLOCKS = 64;
const LAYERS = 4;
/** Milliseconds after the pool has given room to the puts. How much of them is done then, the machine says: the result must not depend on it. */
const MOMENTS_MS = [0, 5, 10, 20, 40];
const TRIES = 100;
const TEST_TIMEOUT_MS = 120_000;

let folder: string;
let pool: RunningPool;
let reader: PoolLoop | undefined;
const startLoop = (): Promise<PoolLoop> =>
  PoolLoop.start({
    storePath: writeStore(folder, pool.store),
    blockCount: BLOCKS + 8,
    layers: LAYERS,
    environment: { MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "127.0.0.1" },
  });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "real-pool-dead-writers-"));
  pool = await startTestPool({
    memoryBytes: 256 * MIB,
    // So long a put without a writer keeps others from its key.
    masterFlags: { put_start_discard_timeout_sec: "2", put_start_release_timeout_sec: "3" },
  });
  reader = await startLoop();
});
afterAll(async () => {
  await reader?.kill();
  await pool?.stop();
  rmSync(folder, { recursive: true });
});

/** Bytes that the owner has given to values, finished or not. */
async function bytesUsed(): Promise<number> {
  return (await pool.master.admin.segments())[0]?.bytesUsed ?? 0;
}
/** Until some value is given room. The master may meanwhile take back that of an earlier dead writer. */
async function untilUsed(before: number): Promise<void> {
  let least = before;
  for (let tries = 0; ; tries++) {
    const used = await bytesUsed();
    if (used > least) return;
    least = used;
    expect(tries).toBeLessThan(20_000);
    await sleep(1);
  }
}

test(
  "a writer that is killed amid its puts",
  async () => {
    const whole = BLOCKS * LOOP_BLOCK;
    for (const [index, moment] of MOMENTS_MS.entries()) {
      const prompt = { seed: index + 1, blocks: BLOCKS };
      const writer = await startLoop();
      const used = await bytesUsed();
      const asked = writer.request(prompt).catch(() => null);
      await untilUsed(used);
      if (moment > 0) await sleep(moment);
      await writer.kill();
      await asked;
      const first = await reader?.request(prompt);
      expect(first?.differing).toBe(0);
      expect(first?.kept).toBe(first?.found);
      for (let tries = 0; (await reader?.find(prompt)) !== whole; tries++) {
        expect(tries).toBeLessThan(TRIES);
        expect((await reader?.request(prompt))?.differing).toBe(0);
        await sleep(100);
      }
      const hit = { found: whole, kept: whole, differing: 0, outcome: "HIT" };
      expect(await reader?.request(prompt)).toEqual(hit);
    }
    expect(await reader?.stop()).toBe(0);
  },
  TEST_TIMEOUT_MS,
);
