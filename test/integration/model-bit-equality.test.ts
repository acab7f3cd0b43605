/**
 * Goal: the generated model's logits are equal bit for bit however a prompt is computed: at once, in chunks, batched with
 * others, token by token, or on cached blocks cut at any boundary.
 * Method: hashes of raw logits of the last prompt token against those of one cold step; controls show that a single flipped
 * bit, a foreign block or a zeroed one does change them, so that the comparison can fail.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { generateModel, prepareModel } from "../../src/serving/model/prepare-model.ts";
import { TINY_CONFIG } from "../../src/serving/model/tiny-model.ts";
import { ModelHarness, hashOf, someTokens } from "./model-support.ts";
import type { TestSequence } from "./model-support.ts";

const TOKENS = 330;
const tokens = someTokens(TOKENS, 512);

let harness: ModelHarness;
let cold: TestSequence;
let expected: string;

beforeAll(async () => {
  harness = await ModelHarness.load(await prepareModel("tiny", { cacheFolder: "unused" }), 400);
  cold = harness.sequence(tokens);
  expected = await harness.finish(cold);
});

afterAll(() => harness.runner.close());

describe("tiny model", () => {
  test("reuse cut at every block boundary", async () => {
    for (let blocks = 1; blocks <= Math.floor((TOKENS - 1) / 16); blocks++) {
      const sequence = harness.sharing(cold, blocks);
      expect(await harness.finish(sequence), `cut after ${blocks} blocks`).toBe(expected);
      harness.release(sequence, blocks);
    }
  });

  test.each([1, 7, 16, 50, 128])("chunks of %i tokens", async (chunk) => {
    const sequence = harness.sequence(tokens);
    expect(await harness.finish(sequence, chunk)).toBe(expected);
    for (const [index, block] of sequence.blocks.entries()) {
      const same = Buffer.compare(
        harness.blockBytes(block),
        harness.blockBytes(cold.blocks[index]!),
      );
      if (index < Math.floor(TOKENS / 16)) expect(same, `block ${index}`).toBe(0);
    }
    harness.release(sequence);
  });

  test("one step that mixes decodes, short and long prefill chunks", async () => {
    const others = [37, 256, 40, 38, 200].map((length, index) =>
      someTokens(length, 512, index + 2),
    );
    const alone: string[] = [];
    for (const other of others) {
      const sequence = harness.sequence(other);
      alone.push(await harness.finish(sequence));
      harness.release(sequence);
    }
    const decoding = harness.sequence(tokens);
    await harness.step({ sequence: decoding, count: TOKENS - 1 });
    const longDecoding = harness.sequence(others[1]!);
    await harness.step({ sequence: longDecoding, count: 255 });
    const items = [
      { sequence: decoding, count: 1 },
      { sequence: harness.sequence(others[0]!), count: 37 },
      { sequence: longDecoding, count: 1 },
      { sequence: harness.sequence(others[2]!), count: 40 },
      { sequence: harness.sequence(others[3]!), count: 38 },
      { sequence: harness.sequence(others[4]!), count: 200 },
    ];
    const runsBefore = harness.runner.runCount;
    const logits = await harness.step(...items);
    expect(logits.map(hashOf)).toEqual([
      expected,
      alone[0],
      alone[1],
      alone[2],
      alone[3],
      alone[4],
    ]);
    expect(harness.runner.runCount - runsBefore).toBeLessThan(items.length);
    for (const { sequence } of items) harness.release(sequence);
  });

  test("blocks moved by a byte copy to other places of a pool full of garbage", async () => {
    const second = await ModelHarness.load(harness.prepared, 40);
    second.pool.fill(Number.NaN);
    const moved = second.sequence(tokens);
    for (let index = 0; index < 20; index++) {
      const block = 39 - index;
      second.blockBytes(block).set(harness.blockBytes(cold.blocks[index]!));
      moved.blocks.push(block);
    }
    // Blocks 0 to 19 are free and hold NaN: what a block's previous owner left must not reach the logits.
    moved.computed = 20 * 16;
    moved.blocks.push(0);
    expect(await second.finish(moved)).toBe(expected);
    await second.runner.close();
  });

  test("the same with two threads", async () => {
    const second = await ModelHarness.load(harness.prepared, 30, 2);
    expect(await second.finish(second.sequence(tokens), 100)).toBe(expected);
    await second.runner.close();
  });

  test("another block size gives the same logits", async () => {
    const prepared = await prepareModel("tiny", { cacheFolder: "unused", blockSize: 32 });
    const second = await ModelHarness.load(prepared, 30);
    const sequence = second.sequence(tokens);
    expect(await second.finish(sequence, 96)).toBe(expected);
    expect(prepared.weightsFingerprint).toBe(harness.prepared.weightsFingerprint);
    await second.runner.close();
  });
});

describe("controls", () => {
  const disturbed = async (change: (sequence: TestSequence) => void): Promise<string> => {
    const sequence = harness.sharing(cold, 20);
    const saved = sequence.blocks.map((block) => harness.blockBytes(block).slice());
    change(sequence);
    const hash = await harness.finish(sequence);
    harness.release(sequence, 20);
    cold.blocks
      .slice(0, 20)
      .forEach((block, index) => harness.blockBytes(block).set(saved[index]!));
    return hash;
  };

  test("one flipped bit of one block changes the logits", async () => {
    for (const index of [0, 7, 19]) {
      const hash = await disturbed((sequence) => {
        const bytes = harness.blockBytes(sequence.blocks[index]!);
        bytes[2] = bytes[2]! ^ 0x40;
      });
      expect(hash, `block ${index}`).not.toBe(expected);
    }
  });

  test("a zeroed block changes the logits, the undisturbed sequence does not", async () => {
    expect(await disturbed((sequence) => harness.blockBytes(sequence.blocks[3]!).fill(0))).not.toBe(
      expected,
    );
    expect(await disturbed(() => undefined)).toBe(expected);
  });
});

test("a model with as many key heads as query heads is bit-equal too", async () => {
  const config = { ...TINY_CONFIG, layerCount: 2, kvHeadCount: 4, tiedEmbedding: true };
  const other = await ModelHarness.load(generateModel("tiny-multi-head", config, 3), 100);
  const whole = other.sequence(tokens);
  const reference = await other.finish(whole);
  for (const chunk of [1, 16, 100]) {
    const sequence = other.sequence(tokens);
    expect(await other.finish(sequence, chunk), `chunks of ${chunk}`).toBe(reference);
    other.release(sequence);
  }
  expect(await other.finish(other.sharing(whole, 20))).toBe(reference);
  await other.runner.close();
});

test("a batch that does not fit is refused and names the field", async () => {
  const vocabulary = 512;
  const batch = {
    sequenceCount: 1,
    tokenIds: Int32Array.of(5),
    tokenCounts: Int32Array.of(1),
    startPositions: Int32Array.of(0),
    blockTable: Int32Array.of(0),
    blockTableStride: 1,
    logits: new Float32Array(vocabulary),
  };
  const refusal = (change: object): Promise<unknown> =>
    harness.runner.runStep({ ...batch, ...change });
  await expect(refusal({ tokenIds: Int32Array.of(-1) })).rejects.toThrow(/tokenIds\[0\]/);
  await expect(refusal({ tokenIds: Int32Array.of(512) })).rejects.toThrow(/tokenIds\[0\]/);
  await expect(refusal({ blockTable: Int32Array.of(-1) })).rejects.toThrow(/blockTable\[0\]\[0\]/);
  await expect(refusal({ blockTable: Int32Array.of(400) })).rejects.toThrow(/blockTable\[0\]\[0\]/);
  await expect(refusal({ startPositions: Int32Array.of(16) })).rejects.toThrow(/blockTableStride/);
  await expect(refusal({ startPositions: Int32Array.of(4096) })).rejects.toThrow(
    /startPositions\[0\]/,
  );
  await expect(refusal({ tokenCounts: Int32Array.of(0) })).rejects.toThrow(/tokenCounts\[0\]/);
  await expect(refusal({ logits: new Float32Array(1) })).rejects.toThrow(/logits/);
});
