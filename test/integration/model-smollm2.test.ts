/**
 * Goal: a real model (SmolLM2-135M-Instruct) is fetched, converted, its tokenizer keeps text, its answers are sensible,
 * and its logits on reused blocks equal the cold ones bit for bit.
 * Method: prepared twice in the project's cache folder (the second time must find the conversion); a prompt of 200 tokens cut at
 * four block boundaries, hashes of raw logits compared, with one flipped bit as control; a greedy answer to a plain question.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { prepareModel } from "../../src/serving/model/prepare-model.ts";
import type { PreparedModel, PrepareProgress } from "../../src/serving/model/prepared-model.ts";
import { loadTokenizer } from "../../src/serving/model/tokenizer.ts";
import type { ModelTokenizer } from "../../src/serving/model/tokenizer.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { ModelHarness } from "./model-support.ts";

const cacheFolder = join(packageRoot(), ".cache", "models");
const TEXT =
  "The pool holds blocks of keys and values. A block that was computed once is found by its hash and read again. ".repeat(
    12,
  );

let prepared: PreparedModel;
let tokenizer: ModelTokenizer;
let harness: ModelHarness;

beforeAll(async () => {
  prepared = await prepareModel("smollm2", { cacheFolder });
  tokenizer = await loadTokenizer(prepared);
  harness = await ModelHarness.load(prepared, 60, 2);
}, 900_000);

afterAll(() => harness?.runner.close());

test("the second preparation takes the kept conversion", async () => {
  const stages: PrepareProgress[] = [];
  const again = await prepareModel("smollm2", {
    cacheFolder,
    contextTokensMax: 1024,
    onProgress: (progress) => stages.push(progress),
  });
  expect(stages).toEqual([]);
  expect(again).toEqual({ ...prepared, contextTokensMax: 1024 });
  expect(prepared.weightsFingerprint).toMatch(/^[0-9a-f]{64}$/);
  expect(prepared.blockBytes).toBe(30 * 2 * 3 * 16 * 64 * 4);
});

test("text becomes the expected token ids and comes back unchanged", () => {
  // Special tokens are one id each, and the line end is a token of its own.
  expect([...tokenizer.encode("<|im_start|>user\nHello<|im_end|>")]).toEqual([
    1, 4093, 198, 19556, 2,
  ]);
  for (const text of ["Hello world 12345", "  naïve café\n\tx = 1;", "日本語 😀 ok"]) {
    const tokenIds = tokenizer.encode(text);
    expect(tokenizer.decode(tokenIds)).toBe(text);
    const decoder = tokenizer.streamingDecoder();
    const pieces = Array.from(tokenIds, (tokenId) => decoder.push(tokenId));
    expect(pieces.join("") + decoder.flush()).toBe(text);
    expect(pieces.every((piece) => !piece.includes("\ufffd"))).toBe(true);
  }
  expect(tokenizer.encode("12345")).toHaveLength(5);
  // Of `tokenizers` 0.23.3 with this vocabulary: numbers of other scripts, and bytes that have no token.
  expect([...tokenizer.encode("   ½")]).toEqual([333, 16738]);
  expect([...tokenizer.encode(" ٣")]).toEqual([216, 164, 113]);
  expect([...tokenizer.encode("x ² y")]).toEqual([104, 216, 19133, 329]);
  expect([...tokenizer.encode("\r\n１")]).toEqual([2738, 8083, 235]);
  expect([...tokenizer.encode(" \u0006\u0006</s>")]).toEqual([22577, 99, 46]);
});

test("reused blocks give the same bits at four cuts; a flipped bit does not", async () => {
  const tokens = tokenizer.encode(TEXT).subarray(0, 200);
  expect(tokens).toHaveLength(200);
  const cold = harness.sequence(tokens);
  const expected = await harness.finish(cold);
  for (const blocks of [1, 5, 8, 12]) {
    const sequence = harness.sharing(cold, blocks);
    expect(await harness.finish(sequence), `cut after ${blocks} blocks`).toBe(expected);
    harness.release(sequence, blocks);
  }
  const chunked = harness.sequence(tokens);
  expect(await harness.finish(chunked, 64)).toBe(expected);
  harness.release(chunked);
  const bytes = harness.blockBytes(cold.blocks[6]!);
  bytes[2] = bytes[2]! ^ 0x40;
  const disturbed = harness.sharing(cold, 12);
  expect(await harness.finish(disturbed)).not.toBe(expected);
});

test("a chat question gets a sensible greedy answer", async () => {
  const messages = [
    { role: "user", content: "What is the capital of France? Answer in one sentence." },
  ];
  const prompt = tokenizer.encodeChat(messages);
  const tokens = new Int32Array(prompt.length + 24);
  tokens.set(prompt);
  const sequence = harness.sequence(tokens);
  let [logits] = await harness.step({ sequence, count: prompt.length });
  const answer: number[] = [];
  while (answer.length < 24) {
    const next = logits!.reduce((best, logit, id) => (logit > logits![best]! ? id : best), 0);
    if (tokenizer.endTokenIds.includes(next)) break;
    tokens[prompt.length + answer.length] = next;
    answer.push(next);
    [logits] = await harness.step({ sequence, count: 1 });
  }
  expect(tokenizer.decode(answer)).toContain("Paris");
  expect(answer.length).toBeLessThan(24);
});
