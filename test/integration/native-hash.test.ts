/**
 * Goal: the addon's block hashes are those of the TypeScript twin (which the golden vectors hold to vLLM), and vLLM's golden
 * ones directly, through page chains and in any number of calls.
 * Method: all golden cases of all algorithms; then seeded random requests of up to several pages, hashed in pieces. Tokens beyond
 * 32 bits do not fit the token arena, so golden cases with such tokens are compared up to the first of them, and counted.
 */
import fc from "fast-check";
import { expect, test } from "vitest";

import * as layout from "../../src/blocks/layout.ts";
import { PageAllocator, PageArena } from "../../src/blocks/page-arena.ts";
import { encodeExtraWords, hashableBlocks } from "../../src/keys/block-extra.ts";
import type { HashRequest } from "../../src/keys/block-extra.ts";
import { hashBlocks, hashHex } from "../../src/keys/block-hash.ts";
import { hashAlgorithm } from "../../src/keys/hash-algorithm.ts";
import { noneHash } from "../../src/keys/none-hash.ts";
import type { HashAlgorithmName } from "../../src/config/kv-cache-config.ts";
import { loadNative } from "../../src/native/load.ts";
import { ALGORITHMS, readHashFile, requestOf, sequenceOf } from "../vectors/hash-cases.ts";
import type { HashInputCase } from "../vectors/hash-cases.ts";
import { readVectors } from "../vectors/vectors.ts";

const native = loadNative();
const PAGES = 48;
const arena = (pageWords: number, entryWords: number): PageArena =>
  new PageArena(
    new Int32Array(new SharedArrayBuffer(PAGES * pageWords * 4)),
    pageWords,
    entryWords,
  );
const tokens = arena(layout.TOKEN_PAGE_WORDS, 1);
const hashes = arena(layout.HASH_PAGE_WORDS, layout.HASH_STRIDE_WORDS);
const tokenPages = new PageAllocator(tokens);
const hashPages = new PageAllocator(hashes);
const bytesOf = (words: Int32Array): Uint8Array => new Uint8Array(words.buffer);
const tokensSharedId = native.sharedRegister(bytesOf(tokens.words));
const hashesSharedId = native.sharedRegister(bytesOf(hashes.words));

function chainOf(words: ArrayLike<number>): number {
  const page = tokenPages.allocate(words.length);
  for (let index = 0; index < words.length; index++) tokens.set(page, index, words[index] ?? 0);
  return page;
}

/** Digests by the addon, in calls that end at `cuts`. */
function addonHashes(
  algorithm: HashAlgorithmName,
  request: HashRequest,
  noneHash: Uint8Array,
  cuts: readonly number[],
): Uint8Array {
  const blocks = hashableBlocks(request);
  const { blockSize } = request;
  const hasherId = native.hasherRegister({
    algorithm,
    blockSize,
    lookaheadTokens: request.lookaheadTokens ?? 0,
    noneHash,
    tokensSharedId,
    hashesSharedId,
  });
  const { encoding, digestBytes } = hashAlgorithm(algorithm);
  const extras = encodeExtraWords(request, blocks, encoding);
  const tokenPage = chainOf(request.tokens);
  const extrasPage = extras === null ? layout.NONE : chainOf(extras);
  const hashPage = hashPages.allocate(blocks);
  let done = 0;
  for (const end of [...cuts.filter((cut) => cut < blocks).toSorted((a, b) => a - b), blocks]) {
    expect(native.hashBlocks(hasherId, tokenPage, hashPage, extrasPage, done, end)).toBe(
      end - done,
    );
    done = end;
  }
  const digests = new Uint8Array(blocks * digestBytes);
  for (let block = 0; block < blocks; block++) {
    const offset = hashes.offset(hashPage, block) * 4;
    digests.set(bytesOf(hashes.words).subarray(offset, offset + digestBytes), block * digestBytes);
  }
  tokenPages.free(tokenPage);
  if (extrasPage !== layout.NONE) tokenPages.free(extrasPage);
  hashPages.free(hashPage);
  native.hasherRelease(hasherId);
  return digests;
}

/** The request up to its first token beyond 32 bits, which the token arena cannot hold. */
function narrow(request: HashRequest): HashRequest {
  const wide = Array.from(request.tokens).findIndex((token) => token > 0xffffffff);
  return wide < 0 ? request : { ...request, tokens: Array.from(request.tokens).slice(0, wide) };
}

const COMPARED = {
  sha256: { whole: 152, cut: 4, blocks: 6057 },
  sha256_cbor: { whole: 152, cut: 4, blocks: 5950 },
  xxhash: { whole: 149, cut: 4, blocks: 6016 },
  xxhash_cbor: { whole: 149, cut: 4, blocks: 5998 },
};

test.each(ALGORITHMS)("golden hashes of vLLM: %s", (algorithm) => {
  const file = readHashFile(algorithm);
  const compared = { whole: 0, cut: 0, blocks: 0 };
  for (const one of file.cases) {
    const all = requestOf(one, sequenceOf(file, one));
    const request = narrow(all);
    const digests = addonHashes(algorithm, request, Buffer.from(one.none_hash, "hex"), []);
    const expected = one.hashes.slice(0, hashableBlocks(request));
    expect(Buffer.from(digests).toString("hex"), one.variant).toBe(expected.join(""));
    compared[request === all ? "whole" : "cut"]++;
    compared.blocks += expected.length;
    if (request === all) expect(expected.length).toBe(one.hashes.length);
  }
  expect(compared).toEqual(COMPARED[algorithm]);
});

test("golden hashes of single blocks", () => {
  const { cases } = readVectors<{ cases: HashInputCase[] }>("hash_inputs");
  let beyond = 0;
  for (const one of cases) {
    const request = narrow(requestOf(one, null));
    const digests = addonHashes(one.algo, request, noneHash(one.seed, one.algo), []);
    if (one.block < hashableBlocks(request))
      expect(hashHex(digests, one.block, 32), `${one.algo} ${one.variant}`).toBe(one.hash);
    else beyond++;
  }
  expect([cases.length, beyond]).toEqual([144, 4]);
});

test.each(ALGORITHMS)(
  "equal to the TypeScript twin for random rows, extras and cuts: %s",
  (algorithm) => {
    const row = fc.array(fc.oneof(fc.nat(300), fc.nat(0xffffffff)), {
      maxLength: 5000,
      size: "max",
    });
    const blockSize = fc.oneof(fc.constantFrom(1, 16, 64), fc.integer({ min: 1, max: 300 }));
    const text = fc.oneof(
      fc.constantFrom("", "a", "\u00ff", "mm"),
      fc.string({ unit: "grapheme" }),
    );
    const extra = fc.record({
      cacheSalt: fc.option(text),
      lora: fc.option(fc.record({ name: text, path: text })),
      lookaheadTokens: fc.nat(5),
      multiModal: fc.constantFrom([], [{ identifier: "a", offset: 3, length: 40 }]),
    });
    const cuts = fc.array(fc.nat(200), { maxLength: 4 });
    const { digestBytes } = hashAlgorithm(algorithm);
    const lengths = digestBytes === 16 ? [16, 32] : [32];
    const parent = fc
      .constantFrom(...lengths)
      .chain((length) => fc.uint8Array({ minLength: length, maxLength: length }));
    fc.assert(
      fc.property(row, blockSize, extra, cuts, parent, (all, size, extras, ends, none) => {
        // What fits the arenas of this test.
        const request = {
          tokens: all.slice(0, Math.min(size * 1000, 5000)),
          blockSize: size,
          ...extras,
        };
        fc.pre(hashableBlocks(request) <= 500);
        expect(addonHashes(algorithm, request, none, ends)).toEqual(
          hashBlocks(request, none, algorithm),
        );
      }),
      { numRuns: 30 },
    );
  },
);

test.each(ALGORITHMS)("look-ahead tokens that are generated later: %s", (algorithm) => {
  // 40 prompt tokens; the third block of 16 and its 3 look-ahead tokens come one by one. The stream was made from the prompt.
  const whole = Array.from({ length: 51 }, (_, index) => 1000 * index + 3);
  const lora = { name: "adapter", path: "/adapters/a" };
  const request = (count: number): HashRequest => ({
    tokens: whole.slice(0, count),
    blockSize: 16,
    lookaheadTokens: 3,
    lora,
  });
  const none = noneHash("0", algorithm);
  expect([40, 50, 51].map((count) => hashableBlocks(request(count)))).toEqual([2, 2, 3]);
  const streams = [40, 51].map((count) =>
    encodeExtraWords(request(count), 3, hashAlgorithm(algorithm).encoding),
  );
  expect(streams[0]).toEqual(streams[1]);
  expect(addonHashes(algorithm, request(51), none, [2])).toEqual(
    hashBlocks(request(51), none, algorithm),
  );
});
