/**
 * Checks a KV-cache description and fills its defaults. Everything behind it may rely on the result: it is complete, frozen
 * plain data that can be sent to worker threads.
 */
import { GROUPS_MAX } from "../blocks/layout.ts";
import { fail } from "../errors.ts";
import {
  DEFAULT_HASH_ALGORITHM,
  DEFAULT_KV_LAYOUT,
  DTYPE_BYTES,
  greatestCommonDivisor,
  groupSpanTokens,
  HASH_ALGORITHMS_SUPPORTED,
  KV_GROUP_KINDS_SUPPORTED,
  KV_LAYOUTS,
  schedulerBlockSize,
} from "./kv-cache-config.ts";
import { isRecord } from "./json-text.ts";
import { positive, refuseUnknownKeys } from "./kv-checks.ts";
import {
  GROUP_KEYS,
  normalizeGroupNeeds,
  normalizeHybrid,
  refuseContextRanks,
} from "./kv-group-normalize.ts";
import { checkHeadsOverRanks, normalizeGroupSizes } from "./kv-group-sizes.ts";
import type { KvCacheConfig, KvCacheConfigInput, KvCacheGroup, Rank } from "./kv-cache-config.ts";

const ALONE: Rank = { rank: 0, size: 1 };
const RANK_KEYS = ["rank", "size"];
const HEADS_KEYS = ["kvHeads", "headSize"];
const CACHE_KEYS = [
  "modelName",
  "dtype",
  "layout",
  "blockSize",
  "hashBlockSize",
  "hashLookaheadTokens",
  "groups",
  "heads",
  "stateBytes",
  "useEagle",
  "retentionInterval",
  "cacheHitAlignmentTokens",
  "tp",
  "pp",
  "pcp",
  "dcp",
  "dp",
  "hashAlgorithm",
  "blockCount",
  "weightsFingerprint",
] satisfies (keyof KvCacheConfigInput)[];
/** What the addon's hashing takes. */
const HASH_LOOKAHEAD_TOKENS_MAX = 1024;

/** Throws MISSING, INVALID_TYPE, INVALID_VALUE or UNSUPPORTED, naming the field, its value and the remedy. */
export function normalizeKvCacheConfig(input: KvCacheConfigInput): KvCacheConfig {
  if (!isRecord(input)) {
    const remedy = "Give modelName, dtype, blockSize, groups, heads and blockCount.";
    const code = input === undefined ? "MISSING" : "INVALID_TYPE";
    fail(code, "kvCache", input, "must describe the KV cache", remedy);
  }
  refuseUnknownKeys(input, CACHE_KEYS, "kvCache.");
  if (typeof input.modelName !== "string" || input.modelName.replace(/\/+$/, "") === "") {
    fail(
      "MISSING",
      "modelName",
      input.modelName,
      "must name the model",
      "Give it as vLLM's --model does.",
    );
  }
  if (typeof input.dtype !== "string" || !Object.hasOwn(DTYPE_BYTES, input.dtype)) {
    fail(
      "INVALID_VALUE",
      "dtype",
      input.dtype,
      "is no element type",
      oneOf(Object.keys(DTYPE_BYTES)),
    );
  }
  const layout = input.layout ?? DEFAULT_KV_LAYOUT;
  if (!KV_LAYOUTS.includes(layout)) {
    fail("INVALID_VALUE", "layout", layout, "is no memory layout", oneOf(KV_LAYOUTS));
  }
  const blockSize = positive(input.blockSize, "blockSize");
  if (isRecord(input.heads)) refuseUnknownKeys(input.heads, HEADS_KEYS, "heads.");
  const kvHeads = positive(input.heads?.kvHeads, "heads.kvHeads");
  const headSize = positive(input.heads?.headSize, "heads.headSize");
  const hashAlgorithm = input.hashAlgorithm ?? DEFAULT_HASH_ALGORITHM;
  if (!HASH_ALGORITHMS_SUPPORTED.includes(hashAlgorithm)) {
    fail(
      "UNSUPPORTED",
      "hashAlgorithm",
      hashAlgorithm,
      "this build cannot hash with it",
      `${oneOf(HASH_ALGORITHMS_SUPPORTED)} In vLLM that is --prefix-caching-hash-algo.`,
    );
  }
  const ranks = normalizeRanks(input, kvHeads);
  const groups = normalizeGroups(input, blockSize, ranks.tp);
  refuseContextRanks(groups, ranks.pcp);
  const blockCount = positive(input.blockCount, "blockCount");
  if (blockCount < 2) {
    fail(
      "INVALID_VALUE",
      "blockCount",
      blockCount,
      "leaves no block beside the null block 0",
      "Give at least 2.",
    );
  }
  return Object.freeze({
    modelName: input.modelName,
    dtype: input.dtype,
    layout,
    blockSize,
    hashBlockSize: normalizeHashBlockSize(input, groups, ranks.dcp),
    hashLookaheadTokens: normalizeLookahead(input.hashLookaheadTokens),
    groups,
    heads: Object.freeze({ kvHeads, headSize }),
    ...normalizeHybrid(input, groups, schedulerBlockSize({ dcp: ranks.dcp, groups })),
    ...ranks,
    hashAlgorithm,
    blockCount,
    weightsFingerprint: normalizeFingerprint(input.weightsFingerprint),
  });
}

function normalizeFingerprint(given: unknown): string | null {
  if (given === undefined || given === null || typeof given === "string") return given ?? null;
  const remedy = "Give a text that differs when the weights do, or leave it out.";
  return fail("INVALID_TYPE", "weightsFingerprint", given, "must be a text or null", remedy);
}

/** The same cache as another rank of the same deployment sees it; its decode-context rank follows from `tp`. */
export function withRanks(
  config: KvCacheConfig,
  ranks: {
    readonly tp?: number;
    readonly pp?: number;
    readonly pcp?: number;
    readonly dp?: number;
  },
): KvCacheConfig {
  const tp = ranks.tp ?? config.tp.rank;
  return normalizeKvCacheConfig({
    ...config,
    tp: { rank: tp, size: config.tp.size },
    pp: { rank: ranks.pp ?? config.pp.rank, size: config.pp.size },
    pcp: { rank: ranks.pcp ?? config.pcp.rank, size: config.pcp.size },
    dcp: { rank: tp % config.dcp.size, size: config.dcp.size },
    dp: { rank: ranks.dp ?? config.dp.rank, size: config.dp.size },
  });
}

function normalizeGroups(
  input: KvCacheConfigInput,
  blockSize: number,
  tp: Rank,
): readonly KvCacheGroup[] {
  if (
    !Array.isArray(input.groups) ||
    input.groups.length === 0 ||
    input.groups.length > GROUPS_MAX
  ) {
    const remedy = `Give 1 to ${GROUPS_MAX} groups, for example [{ kind: "full", layers: 32 }].`;
    fail("INVALID_VALUE", "groups", input.groups, "is not a list of KV-cache groups", remedy);
  }
  return Object.freeze(
    input.groups.map((group: KvCacheConfigInput["groups"][number], index): KvCacheGroup => {
      const field = `groups[${index}]`;
      if (!isRecord(group)) {
        const remedy = 'Give for example { kind: "full", layers: 32 }.';
        fail("INVALID_TYPE", field, group, "is no KV-cache group", remedy);
      }
      if (!KV_GROUP_KINDS_SUPPORTED.includes(group.kind)) {
        const problem = "this build cannot serve this kind of KV-cache group";
        fail("UNSUPPORTED", `${field}.kind`, group.kind, problem, oneOf(KV_GROUP_KINDS_SUPPORTED));
      }
      refuseUnknownKeys(group, GROUP_KEYS, `${field}.`);
      return Object.freeze({
        kind: group.kind,
        layers: positive(group.layers, `${field}.layers`),
        blockSize: positive(group.blockSize ?? blockSize, `${field}.blockSize`),
        ...normalizeGroupNeeds(group, field),
        ...normalizeGroupSizes(group, field, tp),
      });
    }),
  );
}

function normalizeRanks(
  input: KvCacheConfigInput,
  kvHeads: number,
): Pick<KvCacheConfig, "tp" | "pp" | "pcp" | "dcp" | "dp"> {
  const tp = rank(input.tp ?? ALONE, "tp");
  const pp = rank(input.pp ?? ALONE, "pp");
  const pcp = rank(input.pcp ?? ALONE, "pcp");
  const dp = rank(input.dp ?? ALONE, "dp");
  const dcpGiven = input.dcp ?? undefined;
  if (isRecord(dcpGiven)) refuseUnknownKeys(dcpGiven, RANK_KEYS, "dcp.");
  const dcpSize = dcpGiven === undefined ? 1 : positive(dcpGiven.size, "dcp.size");
  // Decode-context ranks are a division of the tensor-parallel ones, so the rank follows from the tensor-parallel rank.
  const dcp = rank({ rank: tp.rank % dcpSize, size: dcpSize }, "dcp");
  if (tp.size % dcp.size !== 0) {
    fail(
      "INVALID_VALUE",
      "dcp.size",
      dcp.size,
      `must divide tp.size ${tp.size}`,
      "Change one of the two.",
    );
  }
  if (dcpGiven !== undefined && dcpGiven.rank !== dcp.rank) {
    fail(
      "INVALID_VALUE",
      "dcp.rank",
      dcpGiven.rank,
      `must be tp.rank % dcp.size = ${dcp.rank}`,
      "Correct dcp.rank.",
    );
  }
  checkHeadsOverRanks(kvHeads, "heads.kvHeads", tp);
  if (pp.size > 1 && pcp.size > 1) {
    // vLLM derives the stage in keys from the world rank there, so two stages with different layers write one key.
    fail(
      "UNSUPPORTED",
      "pcp.size",
      pcp.size,
      "pipeline stages together with prefill-context ranks would store different bytes under one key",
      "Use one of pp and pcp.",
    );
  }
  return { tp, pp, pcp, dcp, dp };
}

function normalizeHashBlockSize(
  input: KvCacheConfigInput,
  groups: readonly KvCacheGroup[],
  dcp: Rank,
): number {
  const spans = groups.map((group) => groupSpanTokens({ dcp }, group));
  const common = spans.reduce(greatestCommonDivisor);
  if (input.hashBlockSize === undefined) return common;
  const given = positive(input.hashBlockSize, "hashBlockSize");
  if (groups.length === 1 ? given !== common : common % given !== 0) {
    const rule =
      groups.length === 1
        ? `must be the block span ${common} when there is one group, as in vLLM`
        : `must divide every group's block span (${spans.join(", ")})`;
    fail("INVALID_VALUE", "hashBlockSize", given, rule, `Leave it out, or use ${common}.`);
  }
  return given;
}

function normalizeLookahead(given: unknown): number {
  const value = given ?? 0;
  const fits =
    typeof value === "number" &&
    Number.isInteger(value) &&
    value >= 0 &&
    value <= HASH_LOOKAHEAD_TOKENS_MAX;
  if (fits) return value;
  return fail(
    typeof value === "number" ? "INVALID_VALUE" : "INVALID_TYPE",
    "hashLookaheadTokens",
    value,
    `must be a whole number from 0 to ${HASH_LOOKAHEAD_TOKENS_MAX}`,
    "Leave it out: vLLM has 0 wherever a KV connector is set.",
  );
}

function rank(value: Rank, field: string): Rank {
  if (!isRecord(value)) {
    const remedy = "Give for example { rank: 0, size: 2 }, or leave it out.";
    fail("INVALID_TYPE", field, value, "must be a rank with its size", remedy);
  }
  refuseUnknownKeys(value, RANK_KEYS, `${field}.`);
  const size = positive(value.size, `${field}.size`);
  if (!Number.isInteger(value.rank) || value.rank < 0 || value.rank >= size) {
    fail(
      "INVALID_VALUE",
      `${field}.rank`,
      value.rank,
      `must be from 0 to ${size - 1}`,
      "Correct rank or size.",
    );
  }
  return Object.freeze({ rank: value.rank, size });
}

function oneOf(names: readonly string[]): string {
  return names.length === 1 ? `Use ${names.join("")}.` : `Use one of ${names.join(", ")}.`;
}
