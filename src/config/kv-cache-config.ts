/**
 * What the KV cache of one rank looks like: the numbers from which keys, block sizes and value bytes follow. Two members of a
 * pool share blocks only when they agree on everything here that chooses keys or bytes.
 */
import { MooncakeKvError } from "../errors.ts";

/** Kinds of vLLM's KV-cache groups. `KV_GROUP_KINDS_SUPPORTED` says which ones `normalizeKvCacheConfig` accepts. */
export type KvGroupKind = "full" | "mla" | "swa" | "swa_mla" | "mamba";
export const KV_GROUP_KINDS_SUPPORTED: readonly KvGroupKind[] = [
  "full",
  "mla",
  "swa",
  "swa_mla",
  "mamba",
];

export type HashAlgorithmName = "sha256" | "sha256_cbor" | "xxhash" | "xxhash_cbor";
/** What depends on the algorithm beside the digest function: how a block is written before it is hashed, and the digest's size. */
export const HASH_ALGORITHMS = {
  sha256: { encoding: "pickle", digestBytes: 32 },
  sha256_cbor: { encoding: "cbor", digestBytes: 32 },
  xxhash: { encoding: "pickle", digestBytes: 16 },
  xxhash_cbor: { encoding: "cbor", digestBytes: 16 },
} as const satisfies {
  readonly [name in HashAlgorithmName]: { encoding: "cbor" | "pickle"; digestBytes: 16 | 32 };
};
/** vLLM's default, so that a pair nobody configured shares its blocks. */
export const DEFAULT_HASH_ALGORITHM: HashAlgorithmName = "sha256";
export const HASH_ALGORITHMS_SUPPORTED = Object.keys(
  HASH_ALGORITHMS,
) as readonly HashAlgorithmName[];

/** Order of the dimensions in memory: L layer, B block, H head, N state (token), C content. */
export type KvLayout = "LBHNC" | "LBNHC" | "LHBNC" | "BLHNC" | "BLNHC";
/** vLLM's where nobody asks for another. */
export const DEFAULT_KV_LAYOUT: KvLayout = "LBNHC";
export const KV_LAYOUTS: readonly KvLayout[] = ["LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC"];

/** Bytes of an element. */
export const DTYPE_BYTES = {
  float32: 4,
  float16: 2,
  bfloat16: 2,
  fp8_e4m3: 1,
  fp8_e5m2: 1,
} as const satisfies Readonly<Record<string, number>>;
export type KvDtype = keyof typeof DTYPE_BYTES;

export interface Rank {
  /** From 0; below `size`. */
  readonly rank: number;
  readonly size: number;
}

export interface KvCacheGroup {
  readonly kind: KvGroupKind;
  /** Layers of this group on this rank. */
  readonly layers: number;
  /** Tokens whose states one block holds on one rank. */
  readonly blockSize: number;
  /** Tokens that a token of a `swa` or `swa_mla` group attends to, itself included; null for other kinds. */
  readonly slidingWindow: number | null;
  /** Tokens below the window that are kept as well (multi-token prediction replays them). */
  readonly extraRetainedTokens: number;
  /** The group belongs to a drafter (EAGLE) that needs the last block of a hit computed anew. */
  readonly eagle: boolean;
  /** Absent: the model's. Names of keys follow the model's heads, as in vLLM; the bytes of this group's blocks follow these. */
  readonly heads?: KvHeads;
  /** Of a `mamba` group: bytes of one layer's state in a block. Absent: the model's. */
  readonly stateBytes?: number;
}

export interface KvHeads {
  /** KV heads of the whole model, before it is cut over tensor-parallel ranks. */
  readonly kvHeads: number;
  /** Elements of one head's key (and of its value). */
  readonly headSize: number;
}

export interface KvCacheConfig {
  /** As the user names the model; keys carry its last path component. */
  readonly modelName: string;
  readonly dtype: KvDtype;
  readonly layout: KvLayout;
  readonly blockSize: number;
  /** Tokens that one block hash covers; every group's span is a multiple of it. */
  readonly hashBlockSize: number;
  /**
   * Tokens after a hash block that its hash covers too, 0 to 1024. vLLM 0.33 has 0 wherever a KV-transfer configuration is
   * given, so a pool that is shared with vLLM needs 0. (Without one it is 1 for EAGLE-style drafters with prefix caching, or
   * num_speculative_tokens for a chain of MTP modules, unless disable_lookahead_block_hashes is set.)
   */
  readonly hashLookaheadTokens: number;
  readonly groups: readonly KvCacheGroup[];
  readonly heads: KvHeads;
  /** Bytes of one layer's state in a `mamba` group's block; 0 for models without. */
  readonly stateBytes: number;
  /** A drafter of the EAGLE kind; with no group flagged, all groups give up their last block. */
  readonly useEagle: boolean;
  /** vLLM's retention interval in tokens: null keeps all that a hit can need, 0 only the prompt's own end. */
  readonly retentionInterval: number | null;
  /** Below the scheduler's block size: hits end on hash blocks, inside of blocks. null: on whole blocks of every group. */
  readonly cacheHitAlignmentTokens: number | null;
  readonly tp: Rank;
  readonly pp: Rank;
  readonly pcp: Rank;
  readonly dcp: Rank;
  readonly dp: Rank;
  readonly hashAlgorithm: HashAlgorithmName;
  /** Blocks of this rank's KV memory, block 0 (vLLM's null block) included. */
  readonly blockCount: number;
  /** Any text that differs when the weights do; null: not compared with other members. */
  readonly weightsFingerprint: string | null;
}

/** What a caller gives: ranks, hash block size and algorithm have defaults; a group's block size defaults to the config's. */
export interface KvCacheConfigInput {
  readonly modelName: string;
  readonly dtype: KvDtype;
  /**
   * Order of the axes of the KV cache, as vLLM's log names it ("Using ... KV cache layout."). Default: as vLLM finds it (`resolveKvLayout`).
   */
  readonly layout?: KvLayout;
  readonly blockSize: number;
  /** vLLM's --prefix-match-unit. Default: the greatest common divisor of the groups' block spans. */
  readonly hashBlockSize?: number;
  /** Default 0, as in every vLLM with a KV connector. */
  readonly hashLookaheadTokens?: number;
  readonly groups: readonly {
    readonly kind: KvGroupKind;
    readonly layers: number;
    readonly blockSize?: number;
    readonly slidingWindow?: number | null;
    readonly extraRetainedTokens?: number;
    readonly eagle?: boolean;
    /** Where a group's differ from the model's. */
    readonly heads?: KvHeads;
    readonly stateBytes?: number;
  }[];
  readonly heads: KvHeads;
  readonly stateBytes?: number;
  readonly useEagle?: boolean;
  /** vLLM's --prefix-cache-retention-interval; default 0, as there. */
  readonly retentionInterval?: number | null;
  readonly cacheHitAlignmentTokens?: number | null;
  readonly tp?: Rank;
  readonly pp?: Rank;
  readonly pcp?: Rank;
  readonly dcp?: Rank;
  readonly dp?: Rank;
  /** vLLM's --prefix-caching-hash-algo; default sha256, as there. */
  readonly hashAlgorithm?: HashAlgorithmName;
  readonly blockCount: number;
  readonly weightsFingerprint?: string | null;
}

/** Tokens that one block of the group spans over all decode-context ranks: the unit that has one pool key. */
export function groupSpanTokens(config: Pick<KvCacheConfig, "dcp">, group: KvCacheGroup): number {
  // A Mamba state is whole on every rank; attention blocks are interleaved over the decode-context ranks.
  return group.kind === "mamba" ? group.blockSize : group.blockSize * config.dcp.size;
}

/** The least number of tokens that is whole blocks in every group: hits and saves are multiples of it. */
export function schedulerBlockSize(config: Pick<KvCacheConfig, "dcp" | "groups">): number {
  return config.groups.reduce(
    (all, group) => leastCommonMultiple(all, groupSpanTokens(config, group)),
    1,
  );
}

/** KV heads that one tensor-parallel rank holds, of the model or of a group that has its own. */
export function localKvHeads(
  config: Pick<KvCacheConfig, "heads" | "tp">,
  heads: KvHeads = config.heads,
): number {
  return Math.max(1, Math.floor(heads.kvHeads / config.tp.size));
}

/** Heads, tokens and elements of each that one layer of an attention group has in a block on this rank. */
export function blockShape(
  config: Pick<KvCacheConfig, "heads" | "tp">,
  group: Pick<KvCacheGroup, "kind" | "blockSize" | "heads">,
): readonly [heads: number, tokens: number, elements: number] {
  const heads = group.heads ?? config.heads;
  return group.kind === "mla" || group.kind === "swa_mla"
    ? [1, group.blockSize, heads.headSize]
    : [localKvHeads(config, heads), group.blockSize, 2 * heads.headSize];
}

/** Bytes of one layer in a block of the group on this rank, before pages of hybrid models are made equal. */
export function layerBytes(
  config: Pick<KvCacheConfig, "heads" | "tp" | "dtype" | "stateBytes">,
  group: KvCacheGroup,
): number {
  if (group.kind === "mamba") return group.stateBytes ?? config.stateBytes;
  const [heads, tokens, elements] = blockShape(config, group);
  return heads * tokens * elements * DTYPE_BYTES[config.dtype];
}

/**
 * Bytes of one block of the group on this rank: what the pool stores of it, in one value or in equal shards. Groups of hybrid
 * models lie over each other on pages as large as the largest group's, one for each layer of the longest group, and a block is
 * a page of every storage.
 */
export function blockBytes(config: KvCacheConfig, groupIndex: number): number {
  const group = config.groups[groupIndex];
  if (group === undefined) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "groups",
      value: groupIndex,
      problem: "there is no such KV-cache group",
      remedy: `Name one of ${config.groups.length}, from 0.`,
    });
  }
  if (!hasPages(config)) return group.layers * layerBytes(config, group);
  const pages = config.groups.map((each) => layerBytes(config, each));
  return Math.max(...pages) * Math.max(...config.groups.map(({ layers }) => layers));
}

/** Whether groups share their memory page by page, as in vLLM's hybrid models. */
export function hasPages(config: Pick<KvCacheConfig, "groups">): boolean {
  return config.groups.length > 1 || config.groups[0]?.kind === "mamba";
}

export function greatestCommonDivisor(left: number, right: number): number {
  return right === 0 ? left : greatestCommonDivisor(right, left % right);
}

export function leastCommonMultiple(left: number, right: number): number {
  return (left / greatestCommonDivisor(left, right)) * right;
}
