/**
 * Goal: every pool key is vLLM's, byte for byte: what a rank puts, gets and looks up, in which order.
 * Method: all cases of the golden file. Prefixes and replication are compared for every case, hybrid models too; the lists of
 * puts, gets and lookups where one attention group that needs every block decides them. The rest is named below.
 */
import { describe, expect, it } from "vitest";
import { groupSpanTokens, schedulerBlockSize } from "../../src/config/kv-cache-config.ts";
import type { KvCacheConfig } from "../../src/config/kv-cache-config.ts";
import { hashBlocks, hashHex } from "../../src/keys/block-hash.ts";
import type { HashAlgorithmName } from "../../src/config/kv-cache-config.ts";
import { hashAlgorithm } from "../../src/keys/hash-algorithm.ts";
import { noneHash } from "../../src/keys/none-hash.ts";
import { getRotation, poolKey, poolKeyPrefixes, ppRankInKeys } from "../../src/keys/pool-keys.ts";
import { putsChunk } from "../../src/keys/striping.ts";
import type { GroupKeyPrefixes } from "../../src/keys/pool-keys.ts";
import { lookupChunks, lookupKeyCount, prefixHit } from "../../src/keys/prefix-hit.ts";
import type { PrefixQuestion } from "../../src/keys/prefix-hit.ts";
import { kindsOf, namespaceOf, readVectors, topologyOf } from "./vectors.ts";
import type { VectorConfig, VectorRank } from "./vectors.ts";

interface PoolKeyCase {
  config: VectorConfig;
  num_tokens: number;
  first_token: number;
  block_sizes: [number, number];
  hashes: string[];
  lookup_keys: string[];
  full_hit_tokens: number;
  ranks: {
    rank: VectorRank;
    pp_rank_in_keys: number;
    tp_replication: number[];
    prefixes: string[];
    lookup_prefixes: string[][];
    put_keys: string[];
    get_keys: string[];
  }[];
}

/** Group kinds whose puts, gets and lookups need per-group masks, with the number of their cases. */
const LISTS_LEFT_OUT = { "full+swa": 7, "full+mamba": 2, "mla+swa_mla": 2 };
/** Algorithms of the cases besides sha256_cbor. */
const OTHER_ALGORITHMS = { sha256: 1, xxhash_cbor: 1 };

const { cases } = readVectors<{ cases: PoolKeyCase[] }>("pool_keys");
const lone = cases.filter((one) => ["full", "mla"].includes(kindsOf(one.config)));

describe("pool keys", () => {
  it(`prefixes and replication equal vLLM's for every rank of all ${cases.length} cases`, () => {
    let ranks = 0;
    let sharded = 0;
    for (const one of cases) {
      for (const rank of one.ranks) {
        const topology = topologyOf(one.config, rank.rank);
        const prefixes = poolKeyPrefixes(topology, namespaceOf(one.config));
        const label = JSON.stringify([one.config, rank.rank]);
        expect(ppRankInKeys(topology), label).toBe(rank.pp_rank_in_keys);
        expect(
          prefixes.groups.map((group) => group.replication),
          label,
        ).toEqual(rank.tp_replication);
        if (prefixes.groups.some((group) => group.own.length > 1)) {
          // The file holds vLLM's rank prefix there, which no key of a finer cut store carries; the puts compare these.
          sharded++;
        } else {
          expect(
            prefixes.groups.map((group) => group.own[0]),
            label,
          ).toEqual(rank.prefixes);
        }
        expect(
          prefixes.groups.map((group) => group.lookup),
          label,
        ).toEqual(rank.lookup_prefixes);
        ranks++;
      }
    }
    expect([cases.length, ranks, sharded]).toEqual([49, 104, 10]);
  });

  it("leave out only the lists of the named hybrid kinds", () => {
    expect(
      tally(cases.filter((one) => !lone.includes(one)).map((one) => kindsOf(one.config))),
    ).toEqual(LISTS_LEFT_OUT);
    expect(tally(lone.map((one) => kindsOf(one.config)))).toEqual({ full: 34, mla: 4 });
  });

  it("puts of every rank equal vLLM's, in order", () => {
    for (const one of lone) {
      for (const rank of one.ranks) {
        const topology = topologyOf(one.config, rank.rank);
        expect(putKeys(one, topology), JSON.stringify([one.config, rank.rank])).toEqual(
          rank.put_keys,
        );
      }
    }
  });

  it("gets of every rank equal vLLM's, in order and rotated", () => {
    for (const one of lone) {
      for (const rank of one.ranks) {
        const topology = topologyOf(one.config, rank.rank);
        expect(getKeys(one, topology), JSON.stringify([one.config, rank.rank])).toEqual(
          rank.get_keys,
        );
      }
    }
  });

  it("lookups and the hit of a full pool equal vLLM's", () => {
    for (const one of lone) {
      const topology = topologyOf(one.config, { tp: 0, pp: 0, pcp: 0, dcp: 0 });
      const group = groupOf(topology, one);
      const question = questionOf(one, topology, group);
      const keys: string[] = [];
      for (let chunk = 0; chunk < lookupChunks(question, firstOf(question.groups)); chunk++) {
        for (const prefix of group.lookup) keys.push(poolKey(prefix, one.hashes[chunk] ?? ""));
      }
      const label = JSON.stringify(one.config);
      expect(keys, label).toEqual(one.lookup_keys);
      expect(lookupKeyCount(question), label).toBe(keys.length);
      const all = new Uint8Array(keys.length).fill(1);
      expect(prefixHit(all, question), label).toBe(one.full_hit_tokens);
    }
  });

  it("hashes in them equal ours", () => {
    const algorithmOf = (one: PoolKeyCase) =>
      (one.config.hash_algo ?? "sha256_cbor") as HashAlgorithmName;
    const others = lone.map(algorithmOf).filter((name) => name !== "sha256_cbor");
    expect(tally(others)).toEqual(OTHER_ALGORITHMS);
    for (const one of cases) {
      const tokens = Array.from({ length: one.num_tokens }, (_, index) => one.first_token + index);
      const seed = one.config.hash_seed === undefined ? "0" : one.config.hash_seed;
      const name = algorithmOf(one);
      const { digestBytes } = hashAlgorithm(name);
      const request = { tokens, blockSize: one.block_sizes[1] };
      const digests = hashBlocks(request, noneHash(seed, name), name);
      expect(one.hashes.map((_, block) => hashHex(digests, block, digestBytes))).toEqual(
        one.hashes,
      );
    }
  });
});

function putKeys(one: PoolKeyCase, topology: KvCacheConfig): string[] {
  const group = groupOf(topology, one);
  const keys: string[] = [];
  for (let chunk = 0; chunk < Math.floor(one.num_tokens / one.block_sizes[0]); chunk++) {
    if (!putsChunk(chunk, group.putStep, group.putPhase)) continue;
    for (const prefix of group.own) keys.push(poolKey(prefix, one.hashes[chunk] ?? ""));
  }
  return keys;
}

function getKeys(one: PoolKeyCase, topology: KvCacheConfig): string[] {
  const keys: string[] = [];
  for (let chunk = 0; chunk < one.full_hit_tokens / one.block_sizes[0]; chunk++) {
    for (const prefix of groupOf(topology, one).own)
      keys.push(poolKey(prefix, one.hashes[chunk] ?? ""));
  }
  const start = getRotation(topology.tp.rank, keys.length);
  return [...keys.slice(start), ...keys.slice(0, start)];
}

function groupOf(topology: KvCacheConfig, one: PoolKeyCase): GroupKeyPrefixes {
  return firstOf(poolKeyPrefixes(topology, namespaceOf(one.config)).groups);
}

function questionOf(
  one: PoolKeyCase,
  topology: KvCacheConfig,
  group: GroupKeyPrefixes,
): PrefixQuestion {
  expect([schedulerBlockSize(topology), topology.hashBlockSize]).toEqual(one.block_sizes);
  return {
    tokens: one.num_tokens,
    hashes: one.hashes.length,
    hashBlockSize: topology.hashBlockSize,
    alignmentTokens: schedulerBlockSize(topology),
    groups: [
      {
        spanTokens: groupSpanTokens(topology, firstOf(topology.groups)),
        prefixes: group.lookup.length,
      },
    ],
  };
}

function firstOf<Item>(items: readonly Item[]): Item {
  const first = items[0];
  if (first === undefined) throw new Error("the case has no group");
  return first;
}

function tally(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
