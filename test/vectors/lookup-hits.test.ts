/**
 * Goal: from the keys that exist follows the same hit as in vLLM.
 * Method: all cases of the golden file whose one group needs every block before the hit (full attention, MLA); the hybrid
 * kinds are counted and named.
 */
import { describe, expect, it } from "vitest";
import { groupSpanTokens, schedulerBlockSize } from "../../src/config/kv-cache-config.ts";
import { poolKeyPrefixes } from "../../src/keys/pool-keys.ts";
import { lookupKeyCount, prefixHit, settledHit } from "../../src/keys/prefix-hit.ts";
import type { PrefixQuestion } from "../../src/keys/prefix-hit.ts";
import { kindsOf, namespaceOf, readVectors, topologyOf } from "./vectors.ts";
import type { VectorConfig } from "./vectors.ts";

interface HitCase {
  config: VectorConfig;
  num_tokens: number;
  hashes: string[];
  candidates: number;
  missing: number[];
  hit_tokens: number;
  tail_key_boundaries: [number, number][];
}

const COMPARED = { full: 36, mla: 12 };
const LEFT_OUT = { "full+swa": 84, swa: 12, "full+mamba": 36, "full+swa+mamba": 12 };

const { cases } = readVectors<{ cases: HitCase[] }>("lookup_hits");

describe("lookup hits", () => {
  it("equal vLLM's for full attention and MLA", () => {
    const compared = cases.filter((one) => Object.hasOwn(COMPARED, kindsOf(one.config)));
    expect(compared.length).toBe(48);
    for (const one of compared) {
      const question = questionOf(one);
      const exists = new Uint8Array(one.candidates).fill(1);
      for (const index of one.missing) exists[index] = 0;
      const label = JSON.stringify([one.config, one.num_tokens, one.missing]);
      expect(lookupKeyCount(question), label).toBe(one.candidates);
      expect(prefixHit(exists, question), label).toBe(one.hit_tokens);
      // As the lookup actor does: it knows only the first absent key, and asks chunk by chunk.
      const [group] = question.groups;
      const absent = exists.indexOf(0);
      const keys = absent < 0 ? exists.length : absent;
      const leading = Math.floor(keys / (group?.prefixes ?? 1)) * (group?.spanTokens ?? 0);
      const { tokens, alignmentTokens, dropLastBlock } = question;
      const settled = settledHit(leading, tokens, alignmentTokens, dropLastBlock);
      expect(settled, label).toBe(one.hit_tokens);
      // With one group and hits on block boundaries the tail block's key is the hit's own.
      expect(one.tail_key_boundaries, label).toEqual(
        one.hit_tokens === 0 ? [] : [[0, one.hit_tokens]],
      );
    }
  });

  it("leave out the named hybrid kinds only", () => {
    const counts: Record<string, number> = {};
    for (const one of cases) counts[kindsOf(one.config)] = (counts[kindsOf(one.config)] ?? 0) + 1;
    expect(counts).toEqual({ ...COMPARED, ...LEFT_OUT });
  });
});

function questionOf(one: HitCase): PrefixQuestion {
  const topology = topologyOf(one.config, { tp: 0, pp: 0, pcp: 0, dcp: 0 });
  const prefixes = poolKeyPrefixes(topology, namespaceOf(one.config));
  return {
    tokens: one.num_tokens,
    hashes: one.hashes.length,
    hashBlockSize: topology.hashBlockSize,
    alignmentTokens: schedulerBlockSize(topology),
    groups: topology.groups.map((group, index) => ({
      spanTokens: groupSpanTokens(topology, group),
      prefixes: prefixes.groups[index]?.lookup.length ?? 0,
    })),
    dropLastBlock: one.config.use_eagle === true,
  };
}
