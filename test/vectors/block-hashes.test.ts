/**
 * Goal: block hashes and NONE_HASH are vLLM's, byte for byte, for all four algorithms and every kind of extra key; and so are
 * the very bytes that are hashed.
 * Method: all cases of the golden files through the TypeScript twin; their numbers are fixed here, so none can vanish.
 */
import { describe, expect, it } from "vitest";
import { encodeExtra } from "../../src/keys/block-extra.ts";
import { BlockHasher, hashBlocks, hashHex } from "../../src/keys/block-hash.ts";
import { hashAlgorithm } from "../../src/keys/hash-algorithm.ts";
import { noneHash, noneHashIsRandom } from "../../src/keys/none-hash.ts";
import type { HashAlgorithmName } from "../../src/config/kv-cache-config.ts";
import { ALGORITHMS, readHashFile, requestOf, sequenceOf } from "./hash-cases.ts";
import type { HashCase, HashFile, HashInputCase, NoneHashFile } from "./hash-cases.ts";
import { readVectors } from "./vectors.ts";

/** How many cases of each variant a golden file has. Those of the xxhash variants lack the cases without a seed. */
const PLAIN = { sha256: 94, sha256_cbor: 94, xxhash: 91, xxhash_cbor: 91 };
const VARIANTS = {
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

describe("NONE_HASH", () => {
  const { cases } = readVectors<NoneHashFile>("none_hash");

  it("equals vLLM's for every seed of every algorithm", () => {
    let random = 0;
    for (const one of cases) {
      const drawn = one.none_hash === "random";
      expect(noneHashIsRandom(one.seed, one.algo), `${one.algo} ${one.seed}`).toBe(drawn);
      if (drawn) random++;
      else expect(hex(noneHash(one.seed, one.algo)), `${one.algo} ${one.seed}`).toBe(one.none_hash);
    }
    expect([cases.length, random]).toEqual([20, 2]);
  });

  it("is drawn anew, 32 bytes, where vLLM draws it", () => {
    const asked: number[] = [];
    const drawn = noneHash(null, "xxhash", (count) => {
      asked.push(count);
      return new Uint8Array(count).fill(7);
    });
    expect(asked).toEqual([32]);
    expect(hex(drawn)).toBe("07".repeat(32));
    expect(() => noneHash(null, "xxhash_cbor")).toThrow(
      expect.objectContaining({ code: "MISSING", field: "PYTHONHASHSEED" }),
    );
  });
});

describe.each(ALGORITHMS)("block hashes of %s", (algorithm) => {
  const file = readHashFile(algorithm);
  const variants = { plain: PLAIN[algorithm], ...VARIANTS };

  for (const [variant, count] of Object.entries(variants)) {
    it(`equal vLLM's: ${variant} (${count} cases)`, () => {
      const cases = file.cases.filter((one) => one.variant === variant);
      expect(cases.length).toBe(count);
      for (const one of cases) {
        const label = `${one.sequence} block ${one.block_size} lookahead ${one.lookahead}`;
        expect(hexes(file, one, algorithm), label).toEqual(one.hashes);
      }
    });
  }

  it("leave out no variant", () => {
    expect(new Set(file.cases.map((one) => one.variant))).toEqual(new Set(Object.keys(variants)));
  });
});

describe("hashed bytes", () => {
  const { cases } = readVectors<{ cases: HashInputCase[] }>("hash_inputs");

  it.each(["sha256", "sha256_cbor"] as const)("equal vLLM's for %s (72 cases)", (algorithm) => {
    const own = cases.filter((one) => one.algo === algorithm);
    expect(own.length).toBe(72);
    for (const one of own) expect(inputOf(one), `${one.variant} ${one.block}`).toBe(one.input);
  });

  it("leave out no case", () => {
    expect(cases.length).toBe(144);
  });
});

function hexes(file: HashFile, one: HashCase, algorithm: HashAlgorithmName): string[] {
  const request = requestOf(one, sequenceOf(file, one));
  const digests = hashBlocks(request, Buffer.from(one.none_hash, "hex"), algorithm);
  const { digestBytes } = hashAlgorithm(algorithm);
  return Array.from({ length: digests.length / digestBytes }, (_, block) =>
    hashHex(digests, block, digestBytes),
  );
}

/** The bytes that block `one.block` is the hash of, after the blocks before it; and that hash must be right too. */
function inputOf(one: HashInputCase): string {
  const request = requestOf(one, null);
  const hasher = new BlockHasher(one.algo);
  const { encoding, digestBytes } = hasher.algorithm;
  const root = noneHash(one.seed, one.algo);
  const digests = hashBlocks(request, root, one.algo);
  expect(hashHex(digests, one.block, digestBytes)).toBe(one.hash);
  const at = one.block * digestBytes;
  const parent = one.block === 0 ? root : digests.subarray(at - digestBytes, at);
  const from = one.block * one.block_size;
  const extra = encodeExtra(one.block, request, encoding);
  return hex(
    hasher.message(parent, request.tokens, from, from + one.block_size, extra, one.lookahead),
  );
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
