/**
 * Goal: a flipped bit in one pooled block never shows in an answer while checksums are on, and the comparison of logits hashes
 * would show it (control: the same flip with checksums off).
 * Method: the whole runtime with the generated model; one bit of the stored value of one block is flipped in the engine.
 */
import { afterEach, expect, test } from "vitest";
import { OUTCOME_MISS } from "../../src/actors/messages.ts";
import type { Application } from "../../src/serving/application.ts";
import { COUNTERS, STORE_LOAD_GET, STORE_PARTIAL_FAILURE } from "../../src/trace/counters.ts";
import { STORE_STATUSES } from "../../src/trace/families.ts";
import { type Answer, generate, promptOf } from "./support/generate.ts";
import { counted } from "./support/gauges.ts";
import { dropLocalCache, flipBit, poolKeys, warm } from "./support/pool.ts";
import { startServing } from "./support/serving.ts";

const BLOCK = 16;
const BLOCKS = 12;
/** A high bit of the fraction of the third float32 of a value. */
const BYTE_OFFSET = 4 * 3 + 2;

let application: Application;
afterEach(async () => {
  expect(await application.stop()).toBe(0);
});

async function start(verify: boolean): Promise<{ prompt: Int32Array; cold: Answer }> {
  ({ application } = await startServing({ pool_verify_checksums: verify }));
  const prompt = promptOf(application, BLOCKS * BLOCK + 5);
  return { prompt, cold: await generate(application, prompt, { noReuse: true }) };
}

/** Warms the pool block by block, so that the key of each block is known, and drops the local cache. */
async function keysOfBlocks(prompt: Int32Array): Promise<string[]> {
  const keys: string[] = [];
  for (let blocks = 1; blocks <= BLOCKS; blocks++) {
    const added = await warm(application, prompt, blocks);
    expect(added).toHaveLength(1);
    keys.push(...added);
  }
  await dropLocalCache(application);
  return keys;
}

test("control: without checksums one flipped bit in any block changes the logits", async () => {
  const { prompt, cold } = await start(false);
  const keys = await keysOfBlocks(prompt);
  for (const key of keys) {
    expect(flipBit(application, key, BYTE_OFFSET)).toBe(true);
    const wrong = await generate(application, prompt);
    expect(wrong.summary.poolTokens).toBe(BLOCKS * BLOCK);
    expect(wrong.hashes[0]).not.toBe(cold.hashes[0]);
    // Flipped back: the same value again, and with it the same bits.
    expect(flipBit(application, key, BYTE_OFFSET)).toBe(true);
    await dropLocalCache(application);
    expect((await generate(application, prompt)).hashes).toEqual(cold.hashes);
    await dropLocalCache(application);
  }
});

test("with checksums the request computes from the bad block on, and the block is saved anew", async () => {
  const { prompt, cold } = await start(true);
  const { runtime } = application;
  const keys = await keysOfBlocks(prompt);
  const failedKeys = COUNTERS.storeFailedKeys + STORE_LOAD_GET * STORE_STATUSES.length;
  for (const [block, key] of keys.entries()) {
    const before = counted(runtime, COUNTERS.loads + OUTCOME_MISS);
    const failedBefore = counted(runtime, failedKeys + STORE_PARTIAL_FAILURE);
    expect(flipBit(application, key, BYTE_OFFSET)).toBe(true);
    const answer = await generate(application, prompt);
    expect(answer.hashes, `bad block ${block}`).toEqual(cold.hashes);
    expect(answer.text).toBe(cold.text);
    expect(answer.summary).toMatchObject({ localTokens: 0, poolTokens: block * BLOCK });
    await dropLocalCache(application);
    expect(counted(runtime, COUNTERS.loads + OUTCOME_MISS)).toBe(before + 1);
    expect(counted(runtime, failedKeys + STORE_PARTIAL_FAILURE)).toBe(failedBefore + 1);
    expect(poolKeys(application)).toContain(key);
    const again = await generate(application, prompt);
    expect(again.summary.poolTokens).toBe(BLOCKS * BLOCK);
    expect(again.hashes).toEqual(cold.hashes);
    await dropLocalCache(application);
  }
});
