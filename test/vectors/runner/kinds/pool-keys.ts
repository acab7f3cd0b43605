/** Every pool key of a deployment: what each rank puts, gets and looks up, in which order, and the prefixes behind. */
import { schedulerBlockSize } from "../../../../src/config/kv-cache-config.ts";
import type { HashAlgorithmName, KvCacheConfig } from "../../../../src/config/kv-cache-config.ts";
import { hashBlocks, hashHex } from "../../../../src/keys/block-hash.ts";
import { hashAlgorithm } from "../../../../src/keys/hash-algorithm.ts";
import { noneHash } from "../../../../src/keys/none-hash.ts";
import {
  getRotation,
  poolKey,
  poolKeyPrefixes,
  ppRankInKeys,
} from "../../../../src/keys/pool-keys.ts";
import type { GroupKeyPrefixes, PoolKeyPrefixes } from "../../../../src/keys/pool-keys.ts";
import {
  answerLookup,
  lookupKeys,
  planLookup,
} from "../../../../src/keys/coordinator/lookup-plan.ts";
import type { LookupAnswer } from "../../../../src/keys/coordinator/lookup-plan.ts";
import { planLoad, planSave } from "../../../../src/keys/coordinator/transfer-plan.ts";
import type { GroupChunks } from "../../../../src/keys/coordinator/transfer-plan.ts";
import { blockSegments } from "../../../../src/keys/kv-tensors.ts";
import { selectStoreShape } from "../../../../src/keys/store-shape.ts";
import { hitRulesOf, namespaceOf, topologyOf } from "../../vectors.ts";
import type { VectorConfig, VectorRank } from "../../vectors.ts";
import { Cases } from "../cases.ts";
import type { CaseCheck, VectorKind } from "../cases.ts";

interface RankCase {
  readonly rank: VectorRank;
  readonly pp_rank_in_keys: number;
  readonly tp_replication: readonly number[];
  readonly prefixes: readonly string[];
  readonly lookup_prefixes: readonly (readonly string[])[];
  readonly put_keys: readonly string[];
  /** Segment sizes of the first three keys. */
  readonly put_sizes: readonly (readonly number[])[];
  readonly get_keys: readonly string[];
}
interface PoolKeyCase {
  readonly config: VectorConfig;
  readonly num_tokens: number;
  readonly first_token: number;
  readonly block_sizes: readonly [number, number];
  readonly hashes: readonly string[];
  readonly lookup_keys: readonly string[];
  readonly full_hit_tokens: number;
  readonly ranks: readonly RankCase[];
}

export const poolKeys: VectorKind = {
  name: "pool_keys",
  run(contents) {
    const report = new Cases();
    (contents as { cases: PoolKeyCase[] }).cases.forEach((one, index) =>
      report.run(`${index} ${JSON.stringify(one.config)}`, (check) => {
        const rank0 = topologyOf(one.config, { tp: 0, pp: 0, pcp: 0, dcp: 0 });
        const sizes = [schedulerBlockSize(rank0), rank0.hashBlockSize];
        check.equal("block sizes", sizes, one.block_sizes);
        check.equal("hashes", hashesOf(one), one.hashes);
        const answer = compareLookup(one, rank0, check);
        for (const rank of one.ranks) compareRank(one, rank, answer, check);
      }),
    );
    return report;
  },
};

function hashesOf(one: PoolKeyCase): string[] {
  const name = (one.config.hash_algo ?? "sha256_cbor") as HashAlgorithmName;
  const seed = one.config.hash_seed === undefined ? "0" : one.config.hash_seed;
  const tokens = Array.from({ length: one.num_tokens }, (_, index) => one.first_token + index);
  const { digestBytes } = hashAlgorithm(name);
  const digests = hashBlocks({ tokens, blockSize: one.block_sizes[1] }, noneHash(seed, name), name);
  return Array.from({ length: digests.length / digestBytes }, (_, block) =>
    hashHex(digests, block, digestBytes),
  );
}

function compareLookup(one: PoolKeyCase, rank0: KvCacheConfig, check: CaseCheck): LookupAnswer {
  const rules = hitRulesOf(one.config);
  const { groups } = poolKeyPrefixes(rank0, namespaceOf(one.config));
  const prefixes = groups.map((group) => group.lookup.length);
  const plan = planLookup(rules, { tokens: one.num_tokens, hashes: one.hashes.length });
  const keys = plan.hashesOfGroup.flatMap((asked, group) =>
    [...asked].flatMap((hash) => keysOf(groups[group]?.lookup, one.hashes[hash])),
  );
  const all = new Uint8Array(lookupKeys(plan, prefixes)).fill(1);
  const answer = answerLookup(rules, plan, prefixes, all);
  check.equal("lookup keys", keys, one.lookup_keys);
  check.equal("number of lookup keys", all.length, one.lookup_keys.length);
  check.equal("hit", answer.hitTokens, one.full_hit_tokens);
  return answer;
}

function compareRank(
  one: PoolKeyCase,
  rank: RankCase,
  answer: LookupAnswer,
  check: CaseCheck,
): void {
  const rules = hitRulesOf(one.config);
  const topology = topologyOf(one.config, rank.rank);
  const prefixes = poolKeyPrefixes(topology, namespaceOf(one.config));
  const label = `of rank ${JSON.stringify(rank.rank)}`;
  comparePrefixes(topology, prefixes, rank, label, check);
  const save = { tokens: one.num_tokens, savedTokens: 0, promptTokens: one.num_tokens };
  const puts = planSave(rules, save, prefixes.groups);
  check.equal(`puts ${label}`, ownKeys(prefixes.groups, puts, one.hashes), rank.put_keys);
  check.equal(`sizes ${label}`, putSizes(one, topology, puts), rank.put_sizes);
  const gets = ownKeys(prefixes.groups, planLoad(rules, { ...answer, localTokens: 0 }), one.hashes);
  const start = getRotation(topology.tp.rank, gets.length);
  check.equal(`gets ${label}`, [...gets.slice(start), ...gets.slice(0, start)], rank.get_keys);
}

function putSizes(
  one: PoolKeyCase,
  topology: KvCacheConfig,
  puts: readonly GroupChunks[],
): number[][] {
  const shape = selectStoreShape(topology, namespaceOf(one.config).storeTp ?? null);
  const segments = blockSegments(topology, shape.tpSize);
  const sizes = puts.flatMap(({ chunks }, group) =>
    [...chunks]
      .flatMap(() => segments[group] ?? [])
      .map((value) => value.map(({ bytes }) => bytes)),
  );
  return sizes.slice(0, 3);
}

function comparePrefixes(
  topology: KvCacheConfig,
  prefixes: PoolKeyPrefixes,
  rank: RankCase,
  label: string,
  check: CaseCheck,
): void {
  const { groups } = prefixes;
  check.equal(`stage ${label}`, ppRankInKeys(topology), rank.pp_rank_in_keys);
  const replication = groups.map((group) => group.replication);
  check.equal(`replication ${label}`, replication, rank.tp_replication);
  // Of a store that is cut finer the file holds a prefix that no key carries; the puts compare these.
  if (groups.every((group) => group.own.length === 1))
    check.equal(
      `prefixes ${label}`,
      groups.map((group) => group.own[0]),
      rank.prefixes,
    );
  const lookup = groups.map((group) => group.lookup);
  check.equal(`lookup prefixes ${label}`, lookup, rank.lookup_prefixes);
}

function ownKeys(
  groups: readonly GroupKeyPrefixes[],
  chunks: readonly GroupChunks[],
  hashes: readonly string[],
): string[] {
  return groups.flatMap((group, index) =>
    [...(chunks[index]?.hashes ?? [])].flatMap((hash) => keysOf(group.own, hashes[hash])),
  );
}

function keysOf(prefixes: readonly string[] = [], hash = ""): string[] {
  return prefixes.map((prefix) => poolKey(prefix, hash));
}
