/**
 * Goal: block hashes and NONE_HASH of sha256_cbor are vLLM's, byte for byte, for every kind of extra key.
 * Method: all cases of the golden files; the algorithms that are not built yet are counted and must be refused.
 */
import { describe, expect, it } from "vitest";
import { hashBlocks, hashHex } from "../../src/keys/block-hash.ts";
import type { HashRequest } from "../../src/keys/block-extra.ts";
import { noneHash } from "../../src/keys/none-hash.ts";
import type { HashAlgorithmName } from "../../src/config/kv-cache-config.ts";
import { embedsOf } from "./prompt-embeds.ts";
import { readVectors } from "./vectors.ts";

interface NoneHashFile {
  cases: { algo: HashAlgorithmName; seed: string | null; none_hash: string }[];
}
interface HashCase {
  variant: string;
  seed: string | null;
  none_hash: string;
  block_size: number;
  lookahead: number;
  sequence: string | null;
  cache_salt?: string;
  lora?: { name: string; path: string };
  mm?: { identifier: string; offset: number; length: number }[];
  prompt_embeds?: { shape: [number, number]; dtype: string };
  prompt_is_token_ids?: boolean[];
  token_ids?: number[];
  hashes: string[];
}
interface HashFile {
  sequences: Record<string, number[]>;
  cases: HashCase[];
}

/** How many cases of each variant the golden file has: a case that vanished from the comparison would be noticed. */
const VARIANTS = {
  plain: 94,
  mm_block_edges: 9,
  mm_spans_blocks: 9,
  all: 9,
  salt: 3,
  salt_empty: 3,
  salt_unicode: 3,
  lora: 3,
  lora_long: 3,
  mm_one: 3,
  mm_at_zero: 3,
  mm_many_in_block: 3,
  mm_same_id: 3,
  embeds_f32: 2,
  embeds_f16: 2,
  embeds_bf16: 2,
  embeds_mixed: 2,
};
const ALGORITHMS_LEFT_OUT: readonly HashAlgorithmName[] = ["sha256", "xxhash", "xxhash_cbor"];

const hashFile = readVectors<HashFile>("hashes_sha256_cbor");
const noneFile = readVectors<NoneHashFile>("none_hash");

describe("NONE_HASH", () => {
  it("equals vLLM's for every seed of sha256_cbor", () => {
    const cases = noneFile.cases.filter((one) => one.algo === "sha256_cbor");
    for (const one of cases) {
      expect(Buffer.from(noneHash(one.seed)).toString("hex"), `seed ${one.seed}`).toBe(
        one.none_hash,
      );
    }
    expect(cases.length).toBe(5);
  });

  it("refuses the algorithms that are left out, by name", () => {
    const left = noneFile.cases.filter((one) => ALGORITHMS_LEFT_OUT.includes(one.algo));
    expect(left.length).toBe(15);
    expect(left.length + 5).toBe(noneFile.cases.length);
    for (const one of left) {
      expect(() => noneHash(one.seed, one.algo)).toThrow(
        expect.objectContaining({ code: "UNSUPPORTED", value: one.algo }),
      );
    }
  });
});

describe("block hashes of sha256_cbor", () => {
  for (const [variant, count] of Object.entries(VARIANTS)) {
    it(`equal vLLM's: ${variant} (${count} cases)`, () => {
      const cases = hashFile.cases.filter((one) => one.variant === variant);
      expect(cases.length).toBe(count);
      for (const one of cases) {
        expect(
          hexes(one),
          `${one.sequence} block ${one.block_size} lookahead ${one.lookahead}`,
        ).toEqual(one.hashes);
      }
    });
  }

  it("leave out no variant", () => {
    expect(new Set(hashFile.cases.map((one) => one.variant))).toEqual(
      new Set(Object.keys(VARIANTS)),
    );
  });
});

function hexes(one: HashCase): string[] {
  const digests = hashBlocks(requestOf(one), Buffer.from(one.none_hash, "hex"));
  return Array.from({ length: digests.length / 32 }, (_, block) => hashHex(digests, block, 32));
}

function requestOf(one: HashCase): HashRequest {
  const embeds = one.prompt_embeds;
  const given = one.sequence === null ? one.token_ids : hashFile.sequences[one.sequence];
  const tokens = given ?? Array.from({ length: embeds?.shape[0] ?? 0 }, () => 0);
  const flags = one.prompt_is_token_ids;
  return {
    tokens:
      flags === undefined
        ? tokens
        : tokens.map((token, index) => (flags[index] === true ? token : 0)),
    blockSize: one.block_size,
    lookaheadTokens: one.lookahead,
    lora: one.lora ?? null,
    multiModal: one.mm ?? [],
    cacheSalt: one.cache_salt ?? null,
    promptEmbeds: embeds === undefined ? null : embedsOf(embeds.shape, embeds.dtype),
  };
}
