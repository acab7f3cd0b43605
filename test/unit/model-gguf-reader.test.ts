/**
 * Goal: GGUF files are read rightly, and files that are damaged, foreign or unsupported are refused with an error that names
 * the file and what is wrong.
 * Method: small files built byte by byte in a temporary folder; every prefix of a sound file must be refused as truncated.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { MooncakeKvError } from "../../src/errors.ts";
import { llamaConfigOf } from "../../src/serving/model/gguf-llama.ts";
import { GgufFile } from "../../src/serving/model/gguf-reader.ts";
import { tokenizerFileOf } from "../../src/serving/model/gguf-tokenizer.ts";
import type { LlamaConfig } from "../../src/serving/model/llama-config.ts";
import { seededWeights, TINY_CONFIG } from "../../src/serving/model/tiny-model.ts";
import { float32Bytes, ggufBytes, llamaMetadata, llamaTensors } from "./model-gguf-builder.ts";
import type { GgufContent } from "./model-gguf-builder.ts";

const folder = mkdtempSync(join(tmpdir(), "gguf-"));
afterAll(() => rmSync(folder, { recursive: true }));

const CONFIG: LlamaConfig = {
  ...TINY_CONFIG,
  layerCount: 1,
  hiddenSize: 8,
  headSize: 4,
  queryHeadCount: 2,
  kvHeadCount: 1,
  feedForwardSize: 16,
  vocabularySize: 4,
  contextTokensMax: 64,
  // What a float32 in the file gives back.
  normEpsilon: Math.fround(1e-5),
};
const SOUND: GgufContent = {
  metadata: llamaMetadata(
    CONFIG,
    ["a", "b", "<|im_start|>", "<|im_end|>"],
    new Set(["<|im_start|>", "<|im_end|>"]),
  ),
  tensors: llamaTensors(CONFIG, seededWeights(CONFIG, 1)),
};

function write(bytes: Uint8Array): string {
  const path = join(folder, "model.gguf");
  writeFileSync(path, bytes);
  return path;
}

/** Opens and interprets a file as the conversion does, and returns the error. */
function refusal(bytes: Uint8Array): MooncakeKvError {
  try {
    const file = new GgufFile(write(bytes));
    try {
      tokenizerFileOf(file, llamaConfigOf(file).vocabularySize);
    } finally {
      file.close();
    }
  } catch (error) {
    if (error instanceof MooncakeKvError) return error;
    throw error;
  }
  throw new Error("the file was accepted");
}

const withMetadata = (change: GgufContent["metadata"]): Uint8Array =>
  ggufBytes({ ...SOUND, metadata: { ...SOUND.metadata, ...change } });

describe("sound files", () => {
  test("metadata, configuration and tensors are read", () => {
    const file = new GgufFile(write(ggufBytes(SOUND)));
    expect(llamaConfigOf(file)).toEqual(CONFIG);
    expect(file.metadata.get("tokenizer.ggml.tokens")).toEqual([
      "a",
      "b",
      "<|im_start|>",
      "<|im_end|>",
    ]);
    expect(file.readTensor("token_embd.weight")).toEqual(seededWeights(CONFIG, 1).embedding().data);
    expect(tokenizerFileOf(file, 4).endTokenIds).toEqual([3]);
    file.close();
  });

  test("rotary factors, linear scaling, a tied embedding and a padded vocabulary are understood", () => {
    const tensors = SOUND.tensors.filter(({ name }) => name !== "output.weight");
    const factors = {
      name: "rope_freqs.weight",
      dimensions: [2],
      typeNumber: 0,
      bytes: float32Bytes(Float32Array.of(1, 8)),
    };
    const scaling = {
      "llama.rope.scaling.type": { text: "linear" },
      "llama.rope.scaling.factor": { float32: 2 },
      "tokenizer.ggml.tokens": { texts: ["a", "b"] },
      "tokenizer.ggml.token_type": { int32s: [1, 1] },
    };
    const content = { metadata: { ...SOUND.metadata, ...scaling }, tensors: [...tensors, factors] };
    const file = new GgufFile(write(ggufBytes(content)));
    const expected = {
      ...CONFIG,
      tiedEmbedding: true,
      ropeLinearFactor: 2,
      ropeFrequencyFactors: [1, 8],
    };
    expect(llamaConfigOf(file)).toEqual(expected);
    expect(tokenizerFileOf(file, 4).tokens).toHaveLength(2);
    file.close();
  });
});

describe("damaged files", () => {
  test("a missing file", () => {
    expect(() => new GgufFile(join(folder, "absent.gguf"))).toThrow(
      /absent\.gguf.*cannot be opened/,
    );
    expect(() => new GgufFile(folder)).toThrow(/this is no file/);
  });

  test("no GGUF at all", () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from("GG"),
      Buffer.from("PK\x03\x04 something else entirely"),
    ]) {
      const error = refusal(bytes);
      expect(error.code).toBe("MODEL_INVALID");
      expect(error.message).toContain("model.gguf");
      expect(error.message).toContain("no GGUF");
    }
  });

  test("cut anywhere", () => {
    const bytes = ggufBytes(SOUND);
    for (let length = 4; length < bytes.length - 32; length += length < 1200 ? 7 : 97) {
      expect(refusal(bytes.subarray(0, length)).code, `cut at ${length}`).toBe("MODEL_INVALID");
    }
    expect(refusal(bytes.subarray(0, bytes.length - 40)).message).toContain("truncated");
  });

  test("absurd lengths do not reserve memory", () => {
    const bytes = ggufBytes(SOUND);
    // The length of the first metadata key is at byte 24.
    bytes.writeBigUInt64LE(1n << 40n, 24);
    expect(refusal(bytes).code).toBe("MODEL_INVALID");
    bytes.writeBigUInt64LE((1n << 63n) + 5n, 24);
    expect(refusal(bytes).code).toBe("MODEL_INVALID");
  });

  test("a missing tensor, a wrong shape, a missing key", () => {
    const without = {
      ...SOUND,
      tensors: SOUND.tensors.filter(({ name }) => name !== "blk.0.ffn_up.weight"),
    };
    expect(refusal(ggufBytes(without)).message).toContain("blk.0.ffn_up.weight is missing");
    expect(
      refusal(withMetadata({ "llama.feed_forward_length": { uint32: 32 } })).message,
    ).toContain("[8, 32]");
    const { "llama.block_count": _dropped, ...rest } = SOUND.metadata;
    expect(refusal(ggufBytes({ ...SOUND, metadata: rest })).message).toContain(
      "llama.block_count is missing",
    );
    expect(refusal(withMetadata({ "llama.block_count": { text: "two" } })).code).toBe(
      "MODEL_INVALID",
    );
  });
});

describe("unsupported files", () => {
  const extra = (name: string, typeNumber: number): Uint8Array => {
    const tensor = { name, dimensions: [8], typeNumber, bytes: new Uint8Array(32) };
    return ggufBytes({ ...SOUND, tensors: [...SOUND.tensors, tensor] });
  };

  test.each<[string, Uint8Array, RegExp]>([
    ["version 1", ggufBytes({ ...SOUND, version: 1 }), /versions 2 and 3/],
    ["big-endian", ggufBytes({ ...SOUND, magic: "FUGG" }), /big-endian/],
    [
      "another architecture",
      withMetadata({ "general.architecture": { text: "gemma3" } }),
      /not llama.*gemma3/,
    ],
    [
      "mixture of experts",
      withMetadata({ "llama.expert_count": { uint32: 8 } }),
      /mixture-of-experts/,
    ],
    [
      "sliding window",
      withMetadata({ "llama.attention.sliding_window": { uint32: 32 } }),
      /sliding-window/,
    ],
    [
      "partial rotation",
      withMetadata({ "llama.rope.dimension_count": { uint32: 2 } }),
      /part of each head/,
    ],
    ["yarn", withMetadata({ "llama.rope.scaling.type": { text: "yarn" } }), /RoPE scaling.*yarn/],
    ["an unknown encoding", extra("blk.0.attn_q.bias", 19), /blk\.0\.attn_q\.bias.*number 19/],
    ["a bias", extra("blk.0.attn_q.bias", 0), /blk\.0\.attn_q\.bias belongs to no plain Llama/],
    [
      "another tokenizer",
      withMetadata({ "tokenizer.ggml.model": { text: "t5" } }),
      /tokenizer.*t5/,
    ],
    [
      "another pre-tokenizer",
      withMetadata({ "tokenizer.ggml.pre": { text: "tekken" } }),
      /pre-tokenizer.*tekken/,
    ],
  ])("%s", (_name, bytes, message) => {
    const error = refusal(bytes);
    expect(error.code).toBe("UNSUPPORTED");
    expect(error.message).toMatch(message);
    expect(error.message).toContain("model.gguf");
  });
});
