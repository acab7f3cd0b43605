/**
 * Goal: on a real model, reused blocks give the cold logits bit for bit at every block boundary of a long prompt.
 * Method: SmolLM2, 850 tokens; every cut from 1 to 53 blocks, and for every cut a control with one flipped bit in its last
 * block. Chunked prefill in the sizes a scheduler uses gives the same bits too.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { prepareModel } from "../../src/serving/model/prepare-model.ts";
import { loadTokenizer } from "../../src/serving/model/tokenizer.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { ModelHarness } from "../integration/model-support.ts";
import type { TestSequence } from "../integration/model-support.ts";

const TOKENS = 850;
let harness: ModelHarness;
let cold: TestSequence;
let expected: string;

beforeAll(async () => {
  const prepared = await prepareModel("smollm2", {
    cacheFolder: join(packageRoot(), ".cache", "models"),
  });
  const tokenizer = await loadTokenizer(prepared);
  const text = Array.from(
    { length: 120 },
    (_, index) => `Line ${index}: block ${index * 7} is kept.`,
  ).join("\n");
  const tokens = tokenizer.encode(text).subarray(0, TOKENS);
  expect(tokens).toHaveLength(TOKENS);
  harness = await ModelHarness.load(prepared, 120, 2);
  cold = harness.sequence(tokens);
  expected = await harness.finish(cold);
}, 900_000);

afterAll(() => harness?.runner.close());

test("every cut, each with a control", { timeout: 1_800_000 }, async () => {
  for (let blocks = 1; blocks <= Math.floor((TOKENS - 1) / 16); blocks++) {
    const sequence = harness.sharing(cold, blocks);
    expect(await harness.finish(sequence), `cut after ${blocks} blocks`).toBe(expected);
    harness.release(sequence, blocks);

    const bytes = harness.blockBytes(cold.blocks[blocks - 1]!);
    const at = ((blocks * 4099) % bytes.length) & ~3;
    bytes[at + 2] = bytes[at + 2]! ^ 0x40;
    const disturbed = harness.sharing(cold, blocks);
    expect(await harness.finish(disturbed), `flipped bit in block ${blocks - 1}`).not.toBe(
      expected,
    );
    harness.release(disturbed, blocks);
    bytes[at + 2] = bytes[at + 2]! ^ 0x40;
  }
});

test.each([128, 256, 512])("prefill in chunks of %i", { timeout: 120_000 }, async (chunk) => {
  const sequence = harness.sequence(cold.tokens);
  expect(await harness.finish(sequence, chunk)).toBe(expected);
  harness.release(sequence);
});
