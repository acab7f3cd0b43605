/**
 * Goal: every logit of every generated token has the same bits whether a prefix was computed, found in local blocks or loaded
 * from the pool, alone and in batches of concurrent requests.
 * Method: the generated model on real actor threads, addon and local engine; a prompt of 20 blocks and a rest is cut at every
 * block boundary: only the first k blocks are warm. The 64-bit hashes of the raw logits of all tokens are compared.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Application } from "../../src/serving/application.ts";
import { type Answer, generate, promptOf } from "./support/generate.ts";
import { settled } from "./support/gauges.ts";
import { clearPool, dropLocalCache, poolKeys, warm } from "./support/pool.ts";
import { startServing } from "./support/serving.ts";

const BLOCK = 16;
const BLOCKS = 20;
const CUTS = Array.from({ length: BLOCKS + 1 }, (_, blocks) => blocks);

let application: Application;
let prompt: Int32Array;
let cold: Answer;

beforeAll(async () => {
  ({ application } = await startServing());
  prompt = promptOf(application, BLOCKS * BLOCK + 5);
  cold = await generate(application, prompt, { noReuse: true });
});
afterAll(async () => {
  expect(await application.stop()).toBe(0);
});

async function forget(): Promise<void> {
  await dropLocalCache(application);
  clearPool(application);
  expect(poolKeys(application)).toEqual([]);
}

function expectEqualBits(answer: Answer, what: string): void {
  expect(answer.hashes, what).toEqual(cold.hashes);
  expect(answer.text, what).toBe(cold.text);
}

test("a cold answer has a hash for each token, and they differ", () => {
  expect(cold.hashes.every((hash) => /^[0-9a-f]{16}$/.test(hash))).toBe(true);
  expect(new Set(cold.hashes).size).toBe(12);
  expect(cold.summary).toMatchObject({ localTokens: 0, poolTokens: 0 });
});

test("from the pool, cut at every block boundary", async () => {
  for (const blocks of CUTS) {
    await forget();
    if (blocks > 0) expect(await warm(application, prompt, blocks)).toHaveLength(blocks);
    await dropLocalCache(application);
    const answer = await generate(application, prompt);
    expect(answer.summary).toMatchObject({ localTokens: 0, poolTokens: blocks * BLOCK });
    expectEqualBits(answer, `first ${blocks} blocks from the pool`);
  }
});

test("from local blocks, cut at every block boundary", async () => {
  for (const blocks of CUTS) {
    await forget();
    if (blocks > 0) await warm(application, prompt, blocks);
    clearPool(application);
    const answer = await generate(application, prompt);
    expect(answer.summary).toMatchObject({ localTokens: blocks * BLOCK, poolTokens: 0 });
    expectEqualBits(answer, `first ${blocks} blocks found locally`);
  }
});

test("local blocks first, then blocks from the pool, then computed ones", async () => {
  for (const [local, pool] of [
    [1, 20],
    [7, 8],
    [12, 19],
  ] as const) {
    await forget();
    await warm(application, prompt, pool);
    await dropLocalCache(application);
    await warm(application, prompt, local);
    const answer = await generate(application, prompt);
    // The last of the local blocks is computed anew: one token of a prompt always is.
    const { localTokens, poolTokens } = answer.summary;
    expect(localTokens).toBeGreaterThanOrEqual((local - 1) * BLOCK);
    expect(localTokens + poolTokens).toBe(pool * BLOCK);
    expectEqualBits(answer, `${local} local blocks, ${pool} in the pool`);
  }
});

test("a prompt of whole blocks that are all in the pool", async () => {
  await forget();
  const whole = prompt.slice(0, BLOCKS * BLOCK);
  const first = await generate(application, whole);
  await dropLocalCache(application);
  const again = await generate(application, whole);
  expect(again.hashes).toEqual(first.hashes);
  const { poolTokens } = again.summary;
  expect(poolTokens).toBeGreaterThanOrEqual((BLOCKS - 1) * BLOCK);
  expect(poolTokens).toBeLessThan(BLOCKS * BLOCK);
});

test("concurrent requests of all cuts, each warm under a salt of its own", async () => {
  await forget();
  const salted = (blocks: number): { cacheSalt: string } => ({ cacheSalt: `cut ${blocks}` });
  for (const blocks of CUTS)
    if (blocks > 0) await warm(application, prompt, blocks, salted(blocks));
  await dropLocalCache(application);
  const ask = (): Promise<Answer[]> =>
    Promise.all(CUTS.map((blocks) => generate(application, prompt, salted(blocks))));
  for (const [blocks, answer] of (await ask()).entries()) {
    expect(answer.summary).toMatchObject({ localTokens: 0, poolTokens: blocks * BLOCK });
    expectEqualBits(answer, `first ${blocks} blocks from the pool, in a batch`);
  }
  for (const [blocks, answer] of (await ask()).entries()) {
    expect(answer.summary).toMatchObject({ localTokens: BLOCKS * BLOCK, poolTokens: 0 });
    expectEqualBits(answer, `cut ${blocks} again, from local blocks, in a batch`);
  }
});

test("concurrent requests of different prompts answer as each alone", async () => {
  await forget();
  const prompts = Array.from({ length: 16 }, (_, index) =>
    promptOf(application, 30 + 37 * index, index % 4),
  );
  const alone: Answer[] = [];
  for (const each of prompts) alone.push(await generate(application, each, { noReuse: true }));
  for (const round of ["computed", "from the pool"]) {
    const together = await Promise.all(prompts.map((each) => generate(application, each)));
    for (const [index, answer] of together.entries())
      expect(answer.hashes, `prompt ${index}, ${round}`).toEqual(alone[index]?.hashes);
    await dropLocalCache(application);
  }
  await settled(application);
});
