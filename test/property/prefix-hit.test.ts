/**
 * Goal: the hit is the longest loadable prefix, whatever is missing.
 * Method: a naive model that tries every aligned length from long to short, against random questions of one to three groups.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  lastHashOfChunk,
  lookupChunks,
  lookupKeyCount,
  prefixHit,
} from "../../src/keys/prefix-hit.ts";
import type { PrefixQuestion } from "../../src/keys/prefix-hit.ts";

const question = fc
  .record({
    tokens: fc.nat(200),
    unit: fc.constantFrom(1, 4, 16),
    groups: fc.array(
      fc.record({ factor: fc.constantFrom(1, 2, 4), prefixes: fc.integer({ min: 1, max: 4 }) }),
      { minLength: 1, maxLength: 3 },
    ),
    missingHashes: fc.nat(2),
    dropLastBlock: fc.boolean(),
  })
  .map((drawn): PrefixQuestion => {
    const groups = drawn.groups.map(({ factor, prefixes }) => ({
      spanTokens: drawn.unit * factor,
      prefixes,
    }));
    return {
      tokens: drawn.tokens,
      hashes: Math.max(0, Math.floor(drawn.tokens / drawn.unit) - drawn.missingHashes),
      hashBlockSize: drawn.unit,
      // The factors are powers of two, so the largest is the common multiple.
      alignmentTokens: Math.max(...groups.map((group) => group.spanTokens)),
      groups,
      dropLastBlock: drawn.dropLastBlock,
    };
  });

describe("prefixHit", () => {
  it("is the longest prefix with every key there", () => {
    fc.assert(
      fc.property(question, fc.array(fc.nat(400), { maxLength: 6 }), (asked, missing) => {
        const exists = new Int32Array(lookupKeyCount(asked)).fill(1);
        // Error codes count as absent, whatever their value.
        for (const index of missing)
          if (index < exists.length) exists[index] = index % 2 === 0 ? 0 : -901;
        expect(prefixHit(exists, asked)).toBe(model(exists, asked));
      }),
      { numRuns: 1000 },
    );
  });

  it("never reaches the whole prompt, and is a multiple of the alignment", () => {
    fc.assert(
      fc.property(question, (asked) => {
        const hit = prefixHit(new Uint8Array(lookupKeyCount(asked)).fill(1), asked);
        expect(hit % asked.alignmentTokens).toBe(0);
        expect(hit === 0 || hit < asked.tokens).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it("asks for hashes that are at hand only", () => {
    fc.assert(
      fc.property(question, (asked) => {
        for (const group of asked.groups) {
          const chunks = lookupChunks(asked, group);
          if (chunks === 0) continue;
          const last = lastHashOfChunk(chunks - 1, group.spanTokens, asked.hashBlockSize);
          expect(last).toBeLessThan(asked.hashes);
        }
      }),
      { numRuns: 300 },
    );
  });
});

/** Tries every aligned length below the limit from long to short. */
function model(exists: ArrayLike<number>, asked: PrefixQuestion): number {
  const covered = (length: number): boolean => {
    let key = 0;
    for (const group of asked.groups) {
      const chunks = lookupChunks(asked, group);
      if (length / group.spanTokens > chunks) return false;
      for (let index = 0; index < (length / group.spanTokens) * group.prefixes; index++) {
        if (exists[key + index] !== 1) return false;
      }
      key += chunks * group.prefixes;
    }
    return true;
  };
  const longest = (limit: number): number => {
    for (let length = limit; length > 0; length--) {
      if (length % asked.alignmentTokens === 0 && covered(length)) {
        return asked.dropLastBlock === true ? length - asked.alignmentTokens : length;
      }
    }
    return 0;
  };
  const hit = longest(asked.tokens);
  return hit >= asked.tokens ? longest(asked.tokens - 1) : hit;
}
