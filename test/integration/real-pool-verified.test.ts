/**
 * Goal: a member with checksums never answers with a value that a client has replaced by another of its size: the request computes from
 * there, says so in its metrics, and the block is saved anew.
 * Method: a whole server over a real master and owner whose leases last a second; the wheel's own client replaces each block's
 * value in turn. Answers are compared by the hashes of their logits with a run without any cache.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { COUNTERS } from "../../src/trace/counters.ts";
import { HIT_REFUSED, HIT_UNVERIFIED, HIT_VERIFIED } from "../../src/trace/families.ts";
import { generate, promptOf } from "./support/generate.ts";
import { counted, settled } from "./support/gauges.ts";
import { PythonClient } from "./support/mooncake.ts";
import { startTestPool } from "./support/mooncake-wheel.ts";
import { dropLocalCache } from "./support/pool.ts";
import { blockKeys, writeStore } from "./support/real-pool.ts";
import { startServing, tinyModel } from "./support/serving.ts";

const BLOCK = 16;
const BLOCKS = 4;

test("each block that is replaced is refused, computed and saved anew", async () => {
  const folder = mkdtempSync(join(tmpdir(), "real-pool-verified-"));
  const pool = await startTestPool({ masterFlags: { default_kv_lease_ttl: "1000" } });
  const python = await PythonClient.start(pool.store.master_server_address);
  const { blockBytes } = await tinyModel();
  const { application } = await startServing(
    { engine: "mooncake", lookup_timeout_ms: 60_000, pool_verify: "when_present" },
    { blockCount: 66 },
    {
      MOONCAKE_CONFIG_PATH: writeStore(folder, pool.store),
      MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "127.0.0.1",
    },
  );
  const prompt = promptOf(application, BLOCKS * BLOCK + 5);
  const wanted = await generate(application, prompt, { noReuse: true });
  const hits = (check: number): number => counted(application.runtime, COUNTERS.hitTokens + check);
  const answered = async (blocks: number): Promise<number> => {
    await dropLocalCache(application);
    const answer = await generate(application, prompt.slice(0, blocks * BLOCK + 5));
    if (blocks === BLOCKS) expect(answer.hashes).toEqual(wanted.hashes);
    await settled(application);
    return answer.summary.poolTokens;
  };
  // Block by block, so that the key of each is known.
  const keys: string[] = [];
  for (let blocks = 1; blocks <= BLOCKS; blocks++) {
    await answered(blocks);
    keys.push(...(await blockKeys(pool.master)).filter((key) => !keys.includes(key)));
  }
  expect(keys).toHaveLength(BLOCKS);
  for (const [block, key] of keys.entries()) {
    const before = [hits(HIT_VERIFIED), hits(HIT_REFUSED)];
    await python.remove(key);
    expect(await python.put(key, new Uint8Array(blockBytes).fill(85), [blockBytes])).toBe(0);
    expect(await answered(BLOCKS), `block ${block}`).toBe(block * BLOCK);
    expect(hits(HIT_REFUSED) - (before[1] ?? 0)).toBe(BLOCK);
    for (let tries = 0; (await answered(BLOCKS)) !== BLOCKS * BLOCK; tries++) {
      expect(tries).toBeLessThan(100);
      await sleep(200);
    }
    expect(hits(HIT_VERIFIED)).toBeGreaterThan(before[0] ?? 0);
    expect(hits(HIT_REFUSED) - (before[1] ?? 0)).toBe(BLOCK);
  }
  expect(hits(HIT_UNVERIFIED)).toBe(0);
  await python.kill();
  expect(await application.stop()).toBe(0);
  await pool.stop();
  rmSync(folder, { recursive: true });
});
