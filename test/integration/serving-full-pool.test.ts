/**
 * Goal: a pool without room never stops serving: it evicts, or refuses what does not fit at all, and answers stay right.
 * Method: the whole runtime on a pool of three blocks, and on one that is smaller than a block.
 */
import { expect, test } from "vitest";
import { OUTCOME_NO_SPACE } from "../../src/actors/messages.ts";
import { COUNTERS } from "../../src/trace/counters.ts";
import { generate, promptOf } from "./support/generate.ts";
import { counted, settled } from "./support/gauges.ts";
import { dropLocalCache, poolKeys } from "./support/pool.ts";
import { startServing, tinyModel } from "./support/serving.ts";

const BLOCK = 16;

test("a pool of a few blocks evicts; requests take what is left and compute the rest", async () => {
  const { blockBytes } = await tinyModel();
  const { application, native } = await startServing({ pool_bytes_max: 8 * blockBytes });
  const { engineId } = application.runtime;
  for (let round = 0; round < 3; round++) {
    const prompts = Array.from({ length: 8 }, (_, index) => promptOf(application, 150, index));
    const answers = await Promise.all(prompts.map((prompt) => generate(application, prompt)));
    for (const [index, prompt] of prompts.entries()) {
      const alone = await generate(application, prompt, { noReuse: true });
      expect(alone.hashes).toEqual(answers[index]?.hashes);
    }
    await dropLocalCache(application);
    const { bytesUsed, bytesMax } = native.engineStatistics(engineId);
    expect(bytesUsed).toBeLessThanOrEqual(bytesMax);
  }
  expect(native.engineStatistics(engineId).evictions).toBeGreaterThan(0);
  expect(await application.stop()).toBe(0);
});

test("a pool smaller than a block takes nothing: saves end with NO_SPACE, all is computed", async () => {
  const { application } = await startServing({ pool_bytes_max: 64 });
  const prompt = promptOf(application, 3 * BLOCK + 1);
  const first = await generate(application, prompt);
  await settled(application);
  expect(poolKeys(application)).toEqual([]);
  expect(counted(application.runtime, COUNTERS.saves + OUTCOME_NO_SPACE)).toBeGreaterThan(0);
  await dropLocalCache(application);
  const again = await generate(application, prompt);
  expect(again.summary).toMatchObject({ localTokens: 0, poolTokens: 0 });
  expect(again.hashes).toEqual(first.hashes);
  expect(application.runtime.healthy()).toBe(true);
  expect(await application.stop()).toBe(0);
});
