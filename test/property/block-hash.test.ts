/**
 * Goal: block hashes follow vLLM's definition for any request, and cutting the work in pieces does not change them.
 * Method: random requests; the reference builds the tuple as plain arrays and encodes it with cborg. The words for the addon
 * are read back and must hold the same extras.
 */
import { createHash } from "node:crypto";
import { encode } from "cborg";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeExtra, encodeExtraWords, hashableBlocks } from "../../src/keys/block-extra.ts";
import type { HashRequest, MultiModalItem } from "../../src/keys/block-extra.ts";
import { BlockHasher, hashBlocks } from "../../src/keys/block-hash.ts";
import { noneHash } from "../../src/keys/none-hash.ts";

/** Items one after the other, from gaps and lengths. */
const items = fc
  .array(
    fc.record({
      gap: fc.nat(20),
      length: fc.integer({ min: 1, max: 40 }),
      identifier: fc.string(),
    }),
    { maxLength: 6 },
  )
  .map((parts): MultiModalItem[] => {
    let end = 0;
    return parts.map(({ gap, length, identifier }) => {
      const offset = end + gap;
      end = offset + length;
      return { identifier, offset, length };
    });
  });

const plainRequest = fc.record({
  tokens: fc.array(fc.nat(200_000), { maxLength: 120 }),
  blockSize: fc.integer({ min: 1, max: 20 }),
  lookaheadTokens: fc.nat(3),
  lora: fc.option(fc.record({ name: fc.string(), path: fc.string() })),
  multiModal: items,
  cacheSalt: fc.option(fc.string({ unit: "grapheme" })),
});

/** Some are given by embeddings too, a row for each token. */
const request = fc
  .tuple(
    plainRequest,
    fc.option(fc.integer({ min: 1, max: 3 })),
    fc.uint8Array({ minLength: 360, maxLength: 360 }),
  )
  .map(([one, rowBytes, bytes]): HashRequest & { lookaheadTokens: number } => ({
    ...one,
    promptEmbeds:
      rowBytes === null
        ? null
        : { bytes: bytes.subarray(0, one.tokens.length * rowBytes), rowBytes },
  }));

/** The one algorithm for which cborg can be the reference. */
const CBOR = "sha256_cbor";

describe("hashBlocks", () => {
  const root = noneHash("0", CBOR);

  it("equals the definition, encoded by cborg", () => {
    fc.assert(
      fc.property(request, (one) => {
        expect(Buffer.from(hashBlocks(one, root, CBOR)).toString("hex")).toBe(reference(one, root));
      }),
      { numRuns: 300 },
    );
  });

  it("gives the same hashes when blocks are hashed one at a time in place", () => {
    fc.assert(
      fc.property(request, (one) => {
        const hasher = new BlockHasher(CBOR);
        const digest = Uint8Array.from(root);
        let all = "";
        for (let block = 0; block < hashableBlocks(one); block++) {
          const from = block * one.blockSize;
          hasher.hashBlock(
            digest,
            one.tokens,
            from,
            from + one.blockSize,
            encodeExtra(block, one, "cbor"),
            digest,
            0,
            one.lookaheadTokens,
          );
          all += Buffer.from(digest).toString("hex");
        }
        expect(all).toBe(Buffer.from(hashBlocks(one, root, CBOR)).toString("hex"));
      }),
      { numRuns: 100 },
    );
  });

  it("hands the addon the same extras as words", () => {
    fc.assert(
      fc.property(request, (one) => {
        const blocks = hashableBlocks(one);
        const extras = Array.from({ length: blocks }, (_, block) =>
          encodeExtra(block, one, "cbor"),
        );
        const words = encodeExtraWords(one, blocks, "cbor");
        if (words === null) {
          expect(extras.every((extra) => extra === null)).toBe(true);
          return;
        }
        const bytes = new Uint8Array(words.buffer);
        let word = 0;
        for (const extra of extras) {
          const length = words[word++] ?? -1;
          expect(length).toBe(extra?.length ?? 0);
          if (extra !== null) expect(bytes.slice(word * 4, word * 4 + length)).toEqual(extra);
          word += Math.ceil(length / 4);
        }
        expect(word).toBe(words.length);
      }),
      { numRuns: 100 },
    );
  });

  it("changes every hash from the first changed token on, and none before", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(1000), { minLength: 32, maxLength: 64 }),
        fc.nat(31),
        (tokens, at) => {
          const changed = tokens.map((token, index) => (index === at ? token + 1 : token));
          const before = hashBlocks({ tokens, blockSize: 8 }, root, CBOR);
          const after = hashBlocks({ tokens: changed, blockSize: 8 }, root, CBOR);
          for (let block = 0; block < before.length / 32; block++) {
            const same =
              Buffer.compare(
                before.slice(block * 32, block * 32 + 32),
                after.slice(block * 32, block * 32 + 32),
              ) === 0;
            expect(same).toBe(block < Math.floor(at / 8));
          }
        },
      ),
      { numRuns: 100 },
    );
  });
});

function reference(one: HashRequest, root: Uint8Array): string {
  const lookahead = one.lookaheadTokens ?? 0;
  const tokens = Array.from(one.tokens);
  let parent: Uint8Array = root;
  let all = "";
  for (let start = 0; start + one.blockSize + lookahead <= tokens.length; start += one.blockSize) {
    const end = start + one.blockSize;
    const parts: unknown[] = [];
    if (one.lora) parts.push(["lora", one.lora.name, one.lora.path]);
    for (const item of one.multiModal ?? []) {
      const overlaps = item.offset < end + lookahead && item.offset + item.length > start;
      if (overlaps) parts.push(["mm", item.identifier, item.offset - start]);
    }
    if (start === 0 && one.cacheSalt) parts.push(["cache_salt", one.cacheSalt]);
    const embeds = one.promptEmbeds ?? null;
    if (embeds !== null) {
      const rows = embeds.bytes.slice(start * embeds.rowBytes, (end + lookahead) * embeds.rowBytes);
      parts.push(["prompt_embeds", Uint8Array.from(createHash("sha256").update(rows).digest())]);
    }
    const element = parts.length === 0 ? null : parts;
    const extra = lookahead === 0 ? element : [element, ...tokens.slice(end, end + lookahead)];
    const input = encode([Uint8Array.from(parent), tokens.slice(start, end), extra]);
    parent = createHash("sha256").update(input).digest();
    all += Buffer.from(parent).toString("hex");
  }
  return all;
}
