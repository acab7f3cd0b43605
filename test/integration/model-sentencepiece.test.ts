/**
 * Goal: vocabularies of the Llama 2 kind (SentencePiece BPE with scores and byte fallback) encode as SentencePiece defines.
 * Method: a GGUF file with a small scored vocabulary; random texts encoded by the project and by the definition written out here
 * (join the adjacent pair whose token has the highest score until none is left; unknown characters become their bytes).
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { prepareModel } from "../../src/serving/model/prepare-model.ts";
import { TINY_CONFIG, seededWeights } from "../../src/serving/model/tiny-model.ts";
import { loadTokenizer } from "../../src/serving/model/tokenizer.ts";
import type { ModelTokenizer } from "../../src/serving/model/tokenizer.ts";
import { ggufBytes, llamaMetadata, llamaTensors } from "../unit/model-gguf-builder.ts";

const CONTROLS = ["<s>", "</s>"];
const BYTES = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`,
);
const WORDS = [
  "▁t",
  "he",
  "▁the",
  "in",
  "er",
  "▁a",
  "re",
  "on",
  "▁there",
  "there",
  "▁in",
  "and",
  "nd",
  "the",
  "ere",
  "▁▁",
];
const LETTERS = Array.from("▁abcdehinort");
const TOKENS = ["<unk>", ...CONTROLS, ...BYTES, ...WORDS, ...LETTERS];
const typeOf = (token: string): number =>
  token === "<unk>" ? 2 : CONTROLS.includes(token) ? 3 : token.startsWith("<0x") ? 6 : 1;

const folder = mkdtempSync(join(tmpdir(), "model-"));
let tokenizer: ModelTokenizer;

beforeAll(async () => {
  const config = {
    ...TINY_CONFIG,
    layerCount: 1,
    hiddenSize: 16,
    headSize: 8,
    queryHeadCount: 2,
    kvHeadCount: 1,
    feedForwardSize: 16,
    vocabularySize: TOKENS.length,
    contextTokensMax: 64,
  };
  const path = join(folder, "pieces.gguf");
  const metadata = {
    ...llamaMetadata(config, TOKENS, new Set(CONTROLS)),
    "tokenizer.ggml.model": { text: "llama" },
    "tokenizer.ggml.token_type": { int32s: TOKENS.map(typeOf) },
    "tokenizer.ggml.scores": { float32s: TOKENS.map((_, id) => -id) },
    "tokenizer.ggml.bos_token_id": { uint32: 1 },
    "tokenizer.ggml.eos_token_id": { uint32: 2 },
  };
  writeFileSync(
    path,
    ggufBytes({ metadata, tensors: llamaTensors(config, seededWeights(config, 1)) }),
  );
  tokenizer = await loadTokenizer(await prepareModel(path, { cacheFolder: join(folder, "cache") }));
});

afterAll(() => rmSync(folder, { recursive: true }));

/** SentencePiece's rule, for a text without special tokens. */
function encodeByDefinition(text: string): number[] {
  const pieces = Array.from(`▁${text.replaceAll(" ", "▁")}`);
  for (;;) {
    let best = -1;
    let bestId = Number.POSITIVE_INFINITY;
    for (let index = 0; index + 1 < pieces.length; index++) {
      const id = TOKENS.indexOf(pieces[index]! + pieces[index + 1]!);
      if (id >= 0 && id < bestId) [best, bestId] = [index, id];
    }
    if (best < 0) break;
    pieces.splice(best, 2, pieces[best]! + pieces[best + 1]!);
  }
  const ids = pieces.flatMap((piece) => {
    const id = TOKENS.indexOf(piece);
    return id >= 0 ? [id] : [...new TextEncoder().encode(piece)].map((byte) => 3 + byte);
  });
  return [1, ...ids];
}

test("known words", () => {
  const tokens = Array.from(tokenizer.encode("there and  the"), (id) => TOKENS[id]);
  expect(tokens[0]).toBe("<s>");
  expect(tokens.slice(1).join("")).toBe("▁there▁and▁▁the");
  expect([...tokenizer.encode("there and  the")]).toEqual(encodeByDefinition("there and  the"));
});

test("random texts, unknown characters as bytes", () => {
  const alphabet = Array.from("abcdehinort   zé😀\n");
  for (let seed = 1; seed <= 300; seed++) {
    let state = seed;
    const text = Array.from({ length: 1 + (seed % 40) }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return alphabet[Math.floor((state / 2 ** 32) * alphabet.length)];
    }).join("");
    expect([...tokenizer.encode(text)], JSON.stringify(text)).toEqual(encodeByDefinition(text));
    // The begin token has no text; the blank before the first word stays.
    expect(tokenizer.decode(tokenizer.encode(text))).toBe(` ${text}`);
  }
});

test("special tokens, and a conversation without a template", () => {
  expect([...tokenizer.encode("in</s>")].at(-1)).toBe(2);
  expect(tokenizer.endTokenIds).toEqual([2]);
  expect(() => tokenizer.encodeChat([{ role: "user", content: "in" }])).toThrow(
    /pieces\.gguf.*no chat template/,
  );
});
