/**
 * Goal: the hit of hybrid models is the longest prefix that every group can go on from, and a lookup's hit never takes all tokens.
 * Method: random groups and random absent blocks against a naive model that tries every prefix, longest first, and asks of each
 * group for the blocks that it needs there.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { HitGroupInput, HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { answerLookup, lookupKeys, planLookup } from "../../src/keys/coordinator/lookup-plan.ts";
import { planLoad } from "../../src/keys/coordinator/transfer-plan.ts";

const HASH_TOKENS = 4;

const group: fc.Arbitrary<HitGroupInput> = fc.record({
  kind: fc.constantFrom("full", "mla", "swa", "swa_mla", "mamba"),
  spanTokens: fc.constantFrom(4, 8, 16),
  slidingWindow: fc.integer({ min: 2, max: 40 }),
  extraRetainedTokens: fc.constantFrom(0, 5),
});

const question = fc.record({
  groups: fc.array(group, { minLength: 1, maxLength: 4 }),
  prefixes: fc.array(fc.integer({ min: 1, max: 2 }), { minLength: 4, maxLength: 4 }),
  tokens: fc.integer({ min: 0, max: 160 }),
  partial: fc.boolean(),
  absent: fc.array(fc.nat(400), { maxLength: 12 }),
});

it("equals the naive model's", () => {
  fc.assert(
    fc.property(question, ({ groups, prefixes, tokens, partial, absent }) => {
      const rules = hitRules({
        groups,
        hashBlockSize: HASH_TOKENS,
        cacheHitAlignmentTokens: partial ? HASH_TOKENS : null,
      });
      const hashes = Math.floor(tokens / HASH_TOKENS);
      const plan = planLookup(rules, { tokens, hashes });
      const exists = new Uint8Array(lookupKeys(plan, prefixes)).fill(1);
      for (const key of absent) if (key < exists.length) exists[key] = 0;
      const there = rules.groups.map((_, index) =>
        presentOf(plan.hashesOfGroup, prefixes, exists, index),
      );
      const answer = answerLookup(rules, plan, prefixes, exists);
      if (!rules.partialBlocks) expect(answer.hitTokens).toBe(naiveHit(rules, there, tokens));
      expect(answer.hitTokens === 0 || answer.hitTokens < tokens).toBe(true);
      expect(answer.hitTokens % rules.alignmentTokens).toBe(0);
      // Whatever the load asks for was found by the lookup.
      const load = planLoad(rules, { ...answer, localTokens: 0 });
      load.forEach((chunks, index) => {
        for (const hash of chunks.hashes) expect(there[index]?.has(hash)).toBe(true);
      });
    }),
    { numRuns: 2_000 },
  );
});

function presentOf(
  asked: readonly Uint32Array[],
  prefixes: readonly number[],
  exists: Uint8Array,
  wanted: number,
): Set<number> {
  const there = new Set<number>();
  let key = 0;
  asked.forEach((hashes, index) => {
    for (const hash of hashes) {
      const keys = exists.subarray(key, key + (prefixes[index] ?? 0));
      if (index === wanted && keys.every((one) => one === 1)) there.add(hash);
      key += keys.length;
    }
  });
  return there;
}

function naiveHit(rules: HitRules, there: readonly Set<number>[], tokens: number): number {
  for (let hit = tokens - 1; hit > 0; hit--) {
    if (hit % rules.blockTokens === 0 && usable(rules, there, hit)) return hit;
  }
  return 0;
}

function usable(rules: HitRules, there: readonly Set<number>[], hit: number): boolean {
  return rules.groups.every(({ needs, spanTokens, windowTokens }, index) => {
    const chunks = hit / spanTokens;
    const attended = needs === "all" ? chunks : needs === "state" ? 1 : windowTokens - 1;
    // A window reaches back from the next token; one of a single token still needs a block that proves the prefix.
    const count = needs === "window" ? Math.max(1, Math.ceil(attended / spanTokens)) : attended;
    for (let chunk = Math.max(0, chunks - count); chunk < chunks; chunk++) {
      if (there[index]?.has(((chunk + 1) * spanTokens) / HASH_TOKENS - 1) !== true) return false;
    }
    return true;
  });
}
