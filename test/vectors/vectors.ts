/** Reading of the golden vector files, and their default configuration. Kinds that a test leaves out are named by the test. */
import { readFileSync } from "node:fs";
import type { KvCacheConfig, KvGroupKind, KvLayout } from "../../src/config/kv-cache-config.ts";
import {
  greatestCommonDivisor,
  groupSpanTokens,
  schedulerBlockSize,
} from "../../src/config/kv-cache-config.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { KeyNamespace } from "../../src/keys/pool-keys.ts";
import { pythonText } from "../../src/config/python-value.ts";

export function readVectors<Contents>(name: string): Contents {
  return JSON.parse(
    readFileSync(new URL(`data/${name}.json`, import.meta.url), "utf8"),
  ) as Contents;
}

/** A `config` of a vector file: only what differs from the defaults is there. */
export interface VectorConfig {
  readonly model_name?: string;
  readonly hash_algo?: string;
  readonly hash_seed?: string | null;
  readonly block_size?: number;
  readonly hash_block_size?: number;
  readonly tp_size?: number;
  readonly pp_size?: number;
  readonly pcp_size?: number;
  readonly dcp_size?: number;
  readonly num_kv_heads?: number;
  readonly head_size?: number;
  readonly layout?: KvLayout;
  readonly num_blocks?: number;
  readonly cache_prefix?: string;
  readonly extra_config?: Readonly<Record<string, unknown>>;
  readonly use_eagle?: boolean;
  readonly retention_interval?: number | null;
  readonly cache_hit_alignment_tokens?: number | null;
  readonly kv_role?: string;
  readonly kv_events?: boolean;
  readonly groups?: readonly {
    kind: KvGroupKind;
    layers?: number;
    block_size?: number;
    sliding_window?: number;
    extra_retained_tokens?: number;
    eagle?: boolean;
  }[];
}

/** A block of a Mamba layer is one state of 64 float16. */
const STATE_BYTES = 128;

export interface VectorRank {
  readonly tp: number;
  readonly pp: number;
  readonly pcp: number;
  readonly dcp: number;
}

/** Fields that `topologyOf`, `hitRulesOf`, `namespaceOf` and the runner's kinds understand. */
const CONFIG_FIELDS = new Set(
  `model_name hash_algo hash_seed block_size hash_block_size tp_size pp_size pcp_size dcp_size num_kv_heads head_size layout
  num_blocks cache_prefix extra_config kv_role kv_events use_eagle retention_interval cache_hit_alignment_tokens groups`.split(
    /\s+/,
  ),
);
const GROUP_FIELDS = new Set(
  "kind layers block_size sliding_window extra_retained_tokens eagle".split(" "),
);

/** A field that nothing reads would leave a case compared by half. */
function refuseUnknown(given: object, known: ReadonlySet<string>): void {
  for (const field of Object.keys(given))
    if (!known.has(field)) throw new Error(`the case's config has an unknown field ${field}`);
}

/** What was recorded without a layout in its configuration was recorded with this one, which is not vLLM's default. */
const RECORDED_LAYOUT = "LBHNC";

/** The configuration as plain data, not normalized: vectors hold kinds that `normalizeKvCacheConfig` refuses. */
export function topologyOf(config: VectorConfig, rank: VectorRank): KvCacheConfig {
  refuseUnknown(config, CONFIG_FIELDS);
  for (const group of config.groups ?? []) refuseUnknown(group, GROUP_FIELDS);
  const blockSize = config.block_size ?? 16;
  const dcp = { rank: rank.dcp, size: config.dcp_size ?? 1 };
  const groups = (config.groups ?? [{ kind: "full" as const, layers: 2 }]).map((group) => ({
    kind: group.kind,
    layers: group.layers ?? 1,
    blockSize: group.block_size ?? blockSize,
    slidingWindow: group.kind.startsWith("swa") ? blockSize : null,
    extraRetainedTokens: 0,
    eagle: false,
  }));
  return {
    modelName: config.model_name ?? "org/model",
    dtype: "float16",
    layout: config.layout ?? RECORDED_LAYOUT,
    blockSize,
    hashBlockSize: config.hash_block_size ?? defaultHashBlockSize({ dcp, groups }),
    groups,
    heads: { kvHeads: config.num_kv_heads ?? 8, headSize: config.head_size ?? 16 },
    stateBytes: groups.some(({ kind }) => kind === "mamba") ? STATE_BYTES : 0,
    useEagle: false,
    retentionInterval: null,
    cacheHitAlignmentTokens: null,
    tp: { rank: rank.tp, size: config.tp_size ?? 1 },
    pp: { rank: rank.pp, size: config.pp_size ?? 1 },
    pcp: { rank: rank.pcp, size: config.pcp_size ?? 1 },
    dcp,
    dp: { rank: 0, size: 1 },
    hashLookaheadTokens: 0,
    hashAlgorithm: "sha256_cbor",
    blockCount: config.num_blocks ?? 64,
    weightsFingerprint: null,
  };
}

/** vLLM's: one group hashes whole blocks, several the greatest common divisor of their blocks. */
function defaultHashBlockSize(config: Pick<KvCacheConfig, "dcp" | "groups">): number {
  if (config.groups.length === 1) return schedulerBlockSize(config);
  return config.groups.reduce(
    (all, group) => greatestCommonDivisor(all, groupSpanTokens(config, group)),
    0,
  );
}

export function hitRulesOf(config: VectorConfig): HitRules {
  const topology = topologyOf(config, { tp: 0, pp: 0, pcp: 0, dcp: 0 });
  return hitRules({
    groups: topology.groups.map((group, index) => {
      const given = config.groups?.[index];
      return {
        kind: group.kind,
        spanTokens: groupSpanTokens(topology, group),
        extraRetainedTokens: given?.extra_retained_tokens ?? 0,
        eagle: given?.eagle ?? false,
        ...(given?.sliding_window === undefined ? {} : { slidingWindow: given.sliding_window }),
      };
    }),
    hashBlockSize: topology.hashBlockSize,
    useEagle: config.use_eagle ?? false,
    retentionInterval: config.retention_interval ?? null,
    cacheHitAlignmentTokens: config.cache_hit_alignment_tokens ?? null,
  });
}

export function namespaceOf(config: VectorConfig): KeyNamespace {
  const extra = config.extra_config ?? {};
  const given = "cache_prefix" in extra ? extra["cache_prefix"] : (config.cache_prefix ?? "");
  return {
    cachePrefix: pythonText(given, "cache_prefix"),
    storeTp: {
      storeTpSize: extra["store_tp_size"],
      enableStoreTpLcm: extra["enable_store_tp_lcm"],
      prefillTpSizes: extra["prefill_tp_sizes"],
      crossLayersBlocks:
        pythonText(
          extra["enable_cross_layers_blocks"] ?? false,
          "enable_cross_layers_blocks",
        ).toLowerCase() === "true",
    },
  };
}

/** The kinds of a configuration's groups, for sorting cases into "compared" and "left out". */
export function kindsOf(config: VectorConfig): string {
  return (config.groups ?? [{ kind: "full" }]).map((group) => group.kind).join("+");
}
