/**
 * Goal: text becomes the tokens that the original makes of it (Hugging Face's `tokenizers`, by which vLLM encodes), whatever
 * characters it holds and whatever Unicode version this Node has; otherwise all blocks behind get keys that no other member has.
 * Method: 20,000 strings out of a generator that scripts/tokenizer-goldens.py has too, rich in borders of character classes;
 * sixteen bits of the CRC-32 of the original's pieces and token ids are kept for each, with vocabularies trained on the strings.
 */
import { Buffer } from "node:buffer";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32, gunzipSync } from "node:zlib";
import { afterAll, expect, test } from "vitest";
import { loadBpeTokenizer } from "../../src/serving/model/bpe-tokenizer.ts";
import { CHARACTERS_FROM } from "../../src/serving/model/character-classes.ts";
import type { TokenizerFile } from "../../src/serving/model/gguf-tokenizer.ts";
import { PRE_TOKENIZERS, wordsOf } from "../../src/serving/model/pre-tokenizers.ts";
import { sentencePieceMerges } from "../../src/serving/model/sentencepiece-merges.ts";
import { byteLevelAlphabet } from "../../src/serving/model/byte-level-alphabet.ts";

type Pool = readonly string[] | { readonly ranges: readonly (readonly [number, number])[] };
interface Vocabulary {
  readonly tokens: readonly string[];
  readonly tokenTypes: readonly number[];
  /** Sixteen bits a string, base64. */
  readonly ids: string;
}
interface Goldens {
  readonly versions: string;
  readonly strings: number;
  readonly seed: number;
  readonly pools: readonly Pool[];
  readonly byteLevel: Readonly<
    Record<string, Vocabulary & { readonly merges: readonly string[]; readonly pieces: string }>
  >;
  readonly sentencePiece: Readonly<
    Record<"prefix" | "plain", Vocabulary & { readonly scores: readonly number[] }>
  >;
  readonly samples: readonly (readonly [string, readonly string[]])[];
}

const goldens = JSON.parse(
  gunzipSync(readFileSync(new URL("golden/tokenizers.json.gz", import.meta.url))).toString(),
) as Goldens;
const texts = strings();
const folder = mkdtempSync(join(tmpdir(), "tokenizers-"));
afterAll(() => rmSync(folder, { recursive: true }));

function strings(): string[] {
  let state = goldens.seed;
  const below = (count: number): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % count;
  };
  const atom = (pool: Pool): string => {
    if (!("ranges" in pool)) return pool[below(pool.length)]!;
    const [low, high] = pool.ranges[below(pool.ranges.length)]!;
    return String.fromCodePoint(low + below(high - low + 1));
  };
  return Array.from({ length: goldens.strings }, () => {
    let text = "";
    for (let count = 1 + below(10); count > 0; count--) {
      const drawn = atom(goldens.pools[below(goldens.pools.length)]!);
      text += drawn.repeat(below(5) === 0 ? 1 + below(3) : 1);
    }
    return text;
  });
}

function fileOf(fields: Partial<TokenizerFile> & Pick<TokenizerFile, "tokens">): TokenizerFile {
  return {
    origin: "golden",
    kind: "byte-level",
    preTokenizer: null,
    tokenTypes: [],
    merges: [],
    vocabularySize: fields.tokens.length,
    beginTokenId: null,
    endTokenId: null,
    endTokenIds: [],
    addBeginToken: false,
    addEndToken: false,
    addSpacePrefix: false,
    chatTemplate: null,
    ...fields,
  };
}

/** The first strings that come out otherwise, of those whose golden bits differ. */
function differing(golden: string, rowOf: (text: string) => Uint8Array): string[] {
  const bits = Buffer.from(golden, "base64");
  const compared = texts.slice(0, bits.length / 2);
  expect(compared.length).toBeGreaterThanOrEqual(5_000);
  const wrong = compared.filter(
    (text, index) => (crc32(rowOf(text)) & 0xffff) !== bits.readUInt16LE(2 * index),
  );
  return wrong.slice(0, 10).map((text) => JSON.stringify(text));
}

const characters = new Map([...byteLevelAlphabet()].map(([character, byte]) => [byte, character]));

function byteLevel(word: string): string {
  return Array.from(Buffer.from(word), (byte) => characters.get(byte)).join("");
}

function idBytes(ids: Int32Array): Uint8Array {
  return new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
}

async function loaded(name: string, file: TokenizerFile): Promise<(text: string) => Uint8Array> {
  const path = join(folder, `${name}.json`);
  writeFileSync(path, JSON.stringify(file));
  const tokenizer = await loadBpeTokenizer(path, () => 0);
  return (text) => idBytes(tokenizer.encode(text));
}

test("every pre-tokenizer that is accepted has golden values, of the tables' versions", () => {
  expect(Object.keys(goldens.byteLevel).toSorted()).toEqual([...PRE_TOKENIZERS.keys()].toSorted());
  expect(goldens.versions).toBe(CHARACTERS_FROM);
  expect(texts.slice(0, 3)).toEqual(goldens.samples.map(([text]) => text));
  expect(new Set(texts).size).toBeGreaterThan(19_000);
});

for (const [name, golden] of Object.entries(goldens.byteLevel)) {
  const { tokens, tokenTypes, merges } = golden;
  const file = fileOf({ preTokenizer: name, tokens, tokenTypes, merges });

  test(`${name}: pieces`, () => {
    const { patterns } = PRE_TOKENIZERS.get(name)!;
    const pieces = (text: string): Uint8Array =>
      Buffer.from(wordsOf(text, patterns).map(byteLevel).join("\0"));
    expect(differing(golden.pieces, pieces)).toEqual([]);
  });

  test(`${name}: token ids`, async () => {
    expect(differing(golden.ids, await loaded(name, file))).toEqual([]);
  });
}

for (const [name, golden] of Object.entries(goldens.sentencePiece)) {
  test(`SentencePiece, ${name}: token ids`, async () => {
    const { tokens, tokenTypes, scores } = golden;
    const merges = sentencePieceMerges(tokens, scores);
    const addSpacePrefix = name === "prefix";
    const file = fileOf({ kind: "sentencepiece", tokens, tokenTypes, merges, addSpacePrefix });
    expect(differing(golden.ids, await loaded(name, file))).toEqual([]);
  });
}
