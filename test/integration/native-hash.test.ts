/**
 * Goal: the addon's block hashes are those of the TypeScript twin (which the golden vectors hold to vLLM), and vLLM's golden
 * ones directly, through page chains and in any number of calls.
 * Method: golden cases of plain tokens, salts, LoRA and look-ahead; then seeded random requests of up to several pages, hashed in
 * pieces. Tokens beyond 32 bits do not fit the token arena, so golden cases with such tokens are left out and counted.
 */
import fc from "fast-check";
import { expect, test } from "vitest";

import * as layout from "../../src/blocks/layout.ts";
import { PageAllocator, PageArena } from "../../src/blocks/page-arena.ts";
import { encodeExtraWords, hashableBlocks } from "../../src/keys/block-extra.ts";
import type { HashRequest } from "../../src/keys/block-extra.ts";
import { hashBlocks } from "../../src/keys/block-hash.ts";
import { loadNative } from "../../src/native/load.ts";
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
  request: HashRequest,
  noneHash: Uint8Array,
  cuts: readonly number[],
): Uint8Array {
  const blocks = hashableBlocks(request);
  const { blockSize } = request;
  const hasherId = native.hasherRegister({
    algorithm: "sha256_cbor",
    blockSize,
    noneHash,
    tokensSharedId,
    hashesSharedId,
  });
  const extras = encodeExtraWords(request, blocks);
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
  const digests = new Uint8Array(blocks * 32);
  for (let block = 0; block < blocks; block++) {
    const offset = hashes.offset(hashPage, block) * 4;
    digests.set(bytesOf(hashes.words).subarray(offset, offset + 32), block * 32);
  }
  tokenPages.free(tokenPage);
  if (extrasPage !== layout.NONE) tokenPages.free(extrasPage);
  hashPages.free(hashPage);
  native.hasherRelease(hasherId);
  return digests;
}

interface HashFile {
  sequences: Record<string, number[]>;
  cases: {
    none_hash: string;
    block_size: number;
    lookahead: number;
    sequence: string | null;
    cache_salt?: string;
    lora?: { name: string; path: string };
    mm?: { identifier: string; offset: number; length: number }[];
    hashes: string[];
  }[];
}

test("golden hashes of vLLM", () => {
  const file = readVectors<HashFile>("hashes_sha256_cbor");
  let compared = 0;
  let tooWide = 0;
  for (const one of file.cases) {
    const sequence = file.sequences[one.sequence ?? ""];
    if (sequence === undefined) continue;
    if (sequence.some((token) => token > 0xffffffff)) {
      tooWide++;
      continue;
    }
    const request: HashRequest = {
      tokens: sequence,
      blockSize: one.block_size,
      lookaheadTokens: one.lookahead,
      lora: one.lora ?? null,
      multiModal: one.mm ?? [],
      cacheSalt: one.cache_salt ?? null,
    };
    const digests = addonHashes(request, Buffer.from(one.none_hash, "hex"), []);
    expect(Buffer.from(digests).toString("hex")).toBe(one.hashes.join(""));
    compared++;
  }
  expect(compared).toBeGreaterThan(100);
  expect(tooWide).toBeLessThan(30);
});

test("equal to the TypeScript twin for random rows, extras and cuts", () => {
  const row = fc.array(fc.oneof(fc.nat(300), fc.nat(0xffffffff)), { maxLength: 5000, size: "max" });
  const blockSize = fc.oneof(fc.constantFrom(1, 16, 64), fc.integer({ min: 1, max: 300 }));
  const extra = fc.record({ cacheSalt: fc.option(fc.string()), lookaheadTokens: fc.nat(3) });
  const cuts = fc.array(fc.nat(200), { maxLength: 4 });
  fc.assert(
    fc.property(
      row,
      blockSize,
      extra,
      cuts,
      fc.uint8Array({ minLength: 32, maxLength: 32 }),
      (all, size, extras, ends, none) => {
        // What fits the arenas of this test.
        const request = { tokens: all.slice(0, size * 1000), blockSize: size, ...extras };
        fc.pre(hashableBlocks(request) <= 2500);
        expect(addonHashes(request, none, ends)).toEqual(hashBlocks(request, none));
      },
    ),
    { numRuns: 60 },
  );
});
