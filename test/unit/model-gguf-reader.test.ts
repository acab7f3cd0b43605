/**
 * Goal: GGUF files are read rightly, and files that are damaged, foreign or unsupported are refused with an error that names
 * the file and what is wrong.
 * Method: small files built byte by byte in a temporary folder; every prefix of a sound file must be refused as truncated.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { MooncakeKvError } from "../../src/errors.ts";
import { llamaConfigOf } from "../../src/serving/model/gguf-llama.ts";
import { checkWholeModel, unknownKeysOf } from "../../src/serving/model/gguf-keys.ts";
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
      checkWholeModel(file);
      unknownKeysOf(file);
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

/** Interprets a file as the conversion does and keeps what `read` takes of it. */
function accepted<Result>(bytes: Uint8Array, read: (file: GgufFile) => Result): Result {
  const file = new GgufFile(write(bytes));
  try {
    checkWholeModel(file);
    return read(file);
  } finally {
    file.close();
  }
}

describe("keys of the metadata", () => {
  const factor = (change: GgufContent["metadata"]): number =>
    accepted(withMetadata(change), (file) => llamaConfigOf(file).ropeLinearFactor);

  test("RoPE is scaled as in llama.cpp: without a type, and under the key's older name", () => {
    expect(factor({})).toBe(1);
    expect(factor({ "llama.rope.scale_linear": { float32: 4 } })).toBe(4);
    expect(factor({ "llama.rope.scaling.factor": { float32: 2 } })).toBe(2);
    const both = {
      "llama.rope.scaling.factor": { float32: 2 },
      "llama.rope.scale_linear": { float32: 4 },
    };
    expect(factor(both)).toBe(2);
    expect(factor({ ...both, "llama.rope.scaling.type": { text: "none" } })).toBe(1);
    expect(factor({ "llama.rope.scaling.factor": { float32: 0 } })).toBe(1);
  });

  test.each([
    ["llama.rope.scaling.attn_factor", { float32: 2 }],
    ["llama.rope.scaling.yarn_log_multiplier", { float32: 0.1 }],
    ["llama.attention.scale", { float32: 0.5 }],
    ["llama.logit_scale", { float32: 0.5 }],
    ["llama.attention.causal", { bool: false }],
    ["llama.something_new", { uint32: 1 }],
    ["llama.vocab_size", { uint32: 5 }],
    ["tokenizer.ggml.precompiled_charsmap", { text: "x" }],
    ["tokenizer.ggml.remove_extra_whitespaces", { bool: true }],
  ] as const)("%s may change numbers: refused by name", (key, value) => {
    const error = refusal(withMetadata({ [key]: value }));
    expect(error.code).toBe("UNSUPPORTED");
    expect(error.message).toContain(key);
  });

  test("keys without effect are taken, foreign ones are told", () => {
    const metadata = {
      "general.name": { text: "x" },
      "general.some_note": { uint32: 3 },
      "llama.vocab_size": { uint32: 4 },
      "llama.expert_count": { uint32: 0 },
      "llama.logit_scale": { float32: 1 },
      "tokenizer.chat_template.tool_use": { text: "x" },
      "quantize.imatrix.file": { text: "x" },
      "somebody.else": { uint32: 1 },
    } as const;
    const unknown = accepted(withMetadata(metadata), unknownKeysOf);
    expect(unknown).toEqual(["quantize.imatrix.file", "somebody.else"]);
  });

  test.each([
    ["split", { "split.count": { uint32: 3 }, "split.no": { uint32: 1 } }, /part 2 of 3.*merge/],
    [
      "adapter",
      { "general.type": { text: "adapter" }, "adapter.type": { text: "lora" } },
      /adapter \(lora\)/,
    ],
    ["projector", { "general.type": { text: "mmproj" } }, /no model of text.*mmproj/],
  ] as const)("%s files say what they are", (_name, change, message) => {
    expect(refusal(withMetadata(change))).toMatchObject({ code: "UNSUPPORTED" });
    expect(refusal(withMetadata(change)).message).toMatch(message);
  });

  test("a vocabulary without weights says so", () => {
    const error = refusal(ggufBytes({ ...SOUND, tensors: [] }));
    expect(error.message).toMatch(/vocabulary without weights/);
  });
});

describe("special tokens, as llama.cpp takes them", () => {
  const tokenizer = (
    tokens: readonly string[],
    types: readonly number[],
    more: GgufContent["metadata"] = {},
  ) =>
    accepted(
      withMetadata({
        "tokenizer.ggml.tokens": { texts: tokens },
        "tokenizer.ggml.token_type": { int32s: types },
        ...more,
      }),
      (file) => tokenizerFileOf(file, tokens.length),
    );

  test("end tokens by their text, whatever their type says; others by their keys", () => {
    const tokens = ["a", "<|im_end|>", "<|eom_id|>", "b", "<|end_of_text|>", "<reponame>", "<|x|>"];
    const made = tokenizer(tokens, [1, 4, 1, 1, 3, 3, 3], {
      "tokenizer.ggml.eos_token_id": { uint32: 6 },
    });
    expect(made.endTokenIds).toEqual([1, 2, 4, 5, 6]);
    expect(made.tokenTypes).toEqual([1, 3, 3, 1, 3, 3, 3]);
    const eot = tokenizer(tokens, [1, 4, 1, 1, 3, 3, 3], {
      "tokenizer.ggml.eot_token_id": { uint32: 3 },
      "tokenizer.ggml.eom_token_id": { uint32: 0 },
    });
    expect(eot.endTokenIds).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("an inner end is none where other tokens end an answer", () => {
    const made = tokenizer(["<|end|>", "<|return|>", "<|call|>", "a"], [3, 3, 3, 1]);
    expect(made.endTokenIds).toEqual([1, 2]);
    expect(made.tokenTypes[0]).toBe(4);
  });

  test("SentencePiece without bos and eos ids has 1 and 2", () => {
    const made = tokenizer(["<unk>", "<s>", "</s>", "a"], [2, 3, 3, 1], {
      "tokenizer.ggml.model": { text: "llama" },
      "tokenizer.ggml.scores": { float32s: [0, 0, 0, 0] },
    });
    expect(made).toMatchObject({ beginTokenId: 1, endTokenId: 2, endTokenIds: [2] });
    expect(made).toMatchObject({ addBeginToken: true, addEndToken: false });
  });

  test("a merge of tokens outside the vocabulary is damage", () => {
    const error = refusal(withMetadata({ "tokenizer.ggml.merges": { texts: ["a q"] } }));
    expect(error.message).toMatch(/a merge names tokens outside.*a q/);
  });

  test("a chat template that cannot be used is refused with the model, by what it lacks", () => {
    const template = (text: string): MooncakeKvError =>
      refusal(withMetadata({ "tokenizer.chat_template": { text } }));
    expect(template("{{ x | wordwrap(3) }}").message).toMatch(
      /model\.gguf.*the filter wordwrap \(line 1\)/,
    );
    expect(template("{% include 'x' %}").message).toMatch(/the statement \{% include %\}/);
    expect(template("a\n{{ x.encode() }}").message).toMatch(/the method encode \(line 2\)/);
    expect(template("a\n{% if x %}").message).toMatch(/is wrong: line 2.*endif/);
    expect(template("{{ x | nothing }}").message).toMatch(/no filter named 'nothing'/);
  });
});

describe("what the header says is bounded by the file", () => {
  const big = 0xffffffff;
  test.each([
    [
      "block_count",
      { "llama.block_count": { uint32: big } },
      /llama\.block_count says 4294967295 layers.*at most 1/,
    ],
    [
      "context_length",
      { "llama.context_length": { uint32: big } },
      /llama\.context_length asks for/,
    ],
    [
      "key_length",
      { "llama.attention.key_length": { uint32: big - 1 } },
      /heads are absurdly large/,
    ],
    ["alignment", { "general.alignment": { uint32: big } }, /truncated/],
  ] as const)("%s", (_name, change, message) => {
    expect(refusal(withMetadata(change))).toMatchObject({ code: "MODEL_INVALID" });
    expect(refusal(withMetadata(change)).message).toMatch(message);
  });

  test("a key or a tensor that stands there twice", () => {
    const [tensor] = SOUND.tensors;
    const twice = ggufBytes({ ...SOUND, tensors: [...SOUND.tensors, tensor!] });
    expect(refusal(twice).message).toMatch(/the tensor token_embd\.weight stands there twice/);
  });

  test("FIFOs, devices, sockets and directories are refused at once", () => {
    const fifo = join(folder, "fifo.gguf");
    execFileSync("mkfifo", [fifo]);
    for (const [path, kind] of [
      [fifo, "FIFO"],
      ["/dev/zero", "character device"],
      [folder, "directory"],
    ] as const) {
      expect(() => new GgufFile(path)).toThrow(new RegExp(`this is a ${kind}, not a file`));
    }
  });
});

describe("damaged files", () => {
  test("a missing file", () => {
    expect(() => new GgufFile(join(folder, "absent.gguf"))).toThrow(
      /absent\.gguf.*cannot be opened/,
    );
    expect(() => new GgufFile(folder)).toThrow(/this is a directory, not a file/);
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
      /llama\.expert_count.*8/,
    ],
    [
      "sliding window",
      withMetadata({ "llama.attention.sliding_window": { uint32: 32 } }),
      /llama\.attention\.sliding_window.*32/,
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
