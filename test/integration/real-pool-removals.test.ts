/**
 * Goal: who is amid a load when others remove its keys past their leases and save other blocks in their room uses no wrong byte: the
 * blocks have failed and are computed. And a reset of this runtime, forced or not, takes nothing from under a reader.
 * Method: a serving loop in a process of its own loads 32 MiB from a real owner and compares every byte. Amid that it is stopped, or
 * starved of processors, while the wheel's own client removes all by force and fills the pool, or another member resets it by force
 * and saves. At which moment the removal meets the load, the machine says: it is tried until loads were hit.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { RunningPool } from "../../src/pool/pool.ts";
import { keepProcessorsBusy, STARVED } from "./support/busy-processors.ts";
import { PythonClient } from "./support/mooncake.ts";
import { startTestPool } from "./support/mooncake-wheel.ts";
import { blockKeys, writeStore } from "./support/real-pool.ts";
import {
  LOOP_BLOCK,
  LOOP_LAYER_BYTES,
  type LoopAnswer,
  PoolLoop,
} from "./support/real-pool-process.ts";

const MIB = 1 << 20;
const LAYERS = 4;
const VALUE_BYTES = LAYERS * LOOP_LAYER_BYTES;
const BLOCKS = 64;
const PROMPT = { seed: 1, blocks: BLOCKS };
const POOL_BYTES = BLOCKS * VALUE_BYTES + 8 * MIB;
/** As many loads have to be hit amid their transfer, in at most so many tries. */
const HITS = 2;
const TRIES = 60;
const TEST_TIMEOUT_MS = 300_000;

let folder: string;
let pool: RunningPool;
const loops: PoolLoop[] = [];
let wheel: PythonClient | undefined;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "real-pool-removals-"));
  pool = await startTestPool({ memoryBytes: POOL_BYTES });
  wheel = await PythonClient.start(pool.store.master_server_address);
});
afterEach(async () => {
  for (const loop of loops.splice(0)) await loop.kill();
  await wheel?.kill();
  await pool.stop();
  rmSync(folder, { recursive: true });
});

async function joinPool(within: readonly string[] = [], extra = {}): Promise<PoolLoop> {
  const loop = await PoolLoop.start({
    storePath: writeStore(folder, pool.store),
    blockCount: BLOCKS + 8,
    layers: LAYERS,
    extra,
    environment: { MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "127.0.0.1" },
    within,
  });
  loops.push(loop);
  return loop;
}

let fills = 0;
/** The wheel's client takes all away by force and puts other values in their room. */
async function removeAndFill(): Promise<void> {
  await wheel?.removeAll();
  const fill = fills++;
  const keys = Array.from({ length: BLOCKS }, (_, index) => `other@${fill}@${index}`);
  await wheel?.store(keys, VALUE_BYTES, 1 + (fill % 255));
}

/** The prompt's blocks are in the pool, and nothing else. */
async function save(reader: PoolLoop): Promise<void> {
  await wheel?.removeAll();
  expect(await reader.request({ ...PROMPT, reuse: false })).toMatchObject({ differing: 0 });
  expect(await blockKeys(pool.master)).toHaveLength(BLOCKS);
}

/** Of its loads: how many were cut by what was removed, and how many used wrong bytes. */
class Loads {
  cut = 0;
  wrong = 0;
  tries = 0;
  add({ found, kept, differing }: LoopAnswer): void {
    this.tries++;
    if (differing > 0) this.wrong++;
    else if (kept < found) this.cut++;
  }
  toString(): string {
    return `${this.tries} loads, ${this.cut} cut, ${this.wrong} wrong`;
  }
}

/** Asks for the prompt; `disturb` runs when its load has begun. */
async function disturbed(reader: PoolLoop, disturb: () => Promise<unknown>): Promise<LoopAnswer> {
  let disturbing: Promise<unknown> = Promise.resolve();
  const answer = await reader.request(PROMPT, () => {
    disturbing = disturb();
  });
  await disturbing;
  return answer;
}

test(
  "the wheel's client removes and fills while the reader is stopped amid its load",
  async () => {
    const reader = await joinPool();
    const loads = new Loads();
    while (loads.cut < HITS && loads.tries < TRIES) {
      await save(reader);
      const answer = await disturbed(reader, async () => {
        // Spread over what 32 MiB take.
        await sleep((loads.tries * 7) % 20);
        reader.process.kill("SIGSTOP");
        await removeAndFill();
        reader.process.kill("SIGCONT");
      });
      loads.add(answer);
    }
    expect(loads.wrong, String(loads)).toBe(0);
    expect(loads.cut, String(loads)).toBeGreaterThan(0);
    expect(await reader.stop()).toBe(0);
  },
  TEST_TIMEOUT_MS,
);

test(
  "the wheel's client removes and fills while the reader is starved of processors",
  async () => {
    const reader = await joinPool(STARVED);
    const loads = new Loads();
    while (loads.cut < 1 && loads.tries < TRIES) {
      await save(reader);
      const release = keepProcessorsBusy();
      try {
        const answer = await disturbed(reader, async () => {
          await sleep(20 + ((loads.tries * 7) % 20) * 20);
          await removeAndFill();
          release();
        });
        loads.add(answer);
      } finally {
        release();
      }
    }
    expect(loads.wrong, String(loads)).toBe(0);
    expect(loads.cut, String(loads)).toBeGreaterThan(0);
    expect(await reader.stop()).toBe(0);
  },
  TEST_TIMEOUT_MS,
);

test(
  "another member resets by force while readers are stopped: it waits for their leases, and who is stopped for longer uses nothing else",
  async () => {
    const [short, long, other] = [await joinPool(), await joinPool(), await joinPool()];
    const loads = new Loads();
    await save(short);
    const stopped: Promise<unknown>[] = [];
    const answers = [short, long].map((reader) => {
      let begun = (): void => undefined;
      stopped.push(new Promise<void>((resolve) => (begun = resolve)));
      return reader.request(PROMPT, () => {
        reader.process.kill("SIGSTOP");
        begun();
      });
    });
    await Promise.all(stopped);
    let isReset = false;
    const reset = other.reset(true).finally(() => (isReset = true));
    await sleep(1_000);
    expect(isReset).toBe(false);
    short.process.kill("SIGCONT");
    const whole = await answers[0];
    expect(whole).toMatchObject({ kept: BLOCKS * LOOP_BLOCK, differing: 0 });
    expect(await reset).toMatchObject({ acknowledged: true });
    expect(await blockKeys(pool.master)).toEqual([]);
    expect(await other.request({ seed: 2, blocks: BLOCKS })).toMatchObject({ differing: 0 });
    long.process.kill("SIGCONT");
    for (const answer of answers) loads.add(await answer);
    expect(loads.wrong, String(loads)).toBe(0);
    // In less time than a lease lasts the pool is not emptied.
    const hasty = await joinPool([], { save_timeout_ms: 2_000 });
    await save(short);
    expect(await other.find(PROMPT)).toBe(BLOCKS * LOOP_BLOCK);
    const refused = await hasty.reset(true);
    expect(refused).toMatchObject({ acknowledged: false, reason: "KEYS_LEFT" });
    expect(await short.request(PROMPT)).toMatchObject({
      kept: BLOCKS * LOOP_BLOCK,
      differing: 0,
    });
  },
  TEST_TIMEOUT_MS,
);
