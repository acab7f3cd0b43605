/**
 * Who a member of a pool is: what its keys and the bytes under them depend on. Members publish it under one well-known key per
 * model name and compare; vLLM publishes none and does not look.
 */
import { groupSpanTokens, localKvHeads } from "../../config/kv-cache-config.ts";
import type { KvCacheConfig } from "../../config/kv-cache-config.ts";
import { valueOrder } from "../../config/kv-layout.ts";
import { modelNameInKeys, ppRankInKeys } from "../../keys/pool-keys.ts";
import { selectStoreShape } from "../../keys/store-shape.ts";
import type { StoreTpRequest } from "../../keys/store-shape.ts";

/** Counts up when a field changes its meaning; a reader compares nothing of a format that it does not know. */
export const IDENTITY_FORMAT = 1;
/** The end of every identity key: no block's key ends so. */
export const IDENTITY_KEY_ENDING = "@mooncake-kv-identity";

/** Members that differ here name their blocks differently: they share nothing and harm nobody. */
export interface KeyFields {
  readonly hashAlgorithm: string;
  /** Hexadecimal digits; random where the algorithm draws it. */
  readonly noneHash: string;
  readonly hashBlockSize: number;
  readonly hashLookaheadTokens: number;
  /** By group: tokens that one key stands for. */
  readonly blockSizes: readonly number[];
  readonly cachePrefix: string;
  /** What the store's shape adds to the model's name in keys; empty for the rank's own shape. */
  readonly storeShape: string;
}

/** Members that differ here would read each other's blocks as something else. */
export interface ByteFields {
  readonly dtype: string;
  /** Order of the axes within one value. */
  readonly layout: string;
  readonly groups: readonly GroupBytes[];
  /** KV heads in one value. */
  readonly heads: number;
  readonly headSize: number;
  /** Of one layer's state in a Mamba group; 0 without. */
  readonly stateBytes: number;
  readonly pipelineRanks: number;
  readonly prefillContextRanks: number;
  readonly decodeContextRanks: number;
  /** null: not compared. */
  readonly weightsFingerprint: string | null;
  /** Stage that `groups[].layers` is of: those of another stage lie under other keys and are not compared. */
  readonly pipelineRank: number;
}

export interface GroupBytes {
  readonly kind: string;
  readonly layers: number;
  /**
   * Hash blocks whose tokens one value holds. A value is named by the last of them, so that members of one hash block size and
   * two block sizes would find values of other lengths under their keys.
   */
  readonly hashBlocks: number;
  /** KV heads in one value of this group, their size, and bytes of one layer's state. */
  readonly heads: number;
  readonly headSize: number;
  readonly stateBytes: number;
}

export interface PoolIdentity {
  readonly keys: KeyFields;
  readonly bytes: ByteFields;
}

export interface IdentityInput {
  readonly kvCache: KvCacheConfig;
  readonly cachePrefix: string;
  readonly noneHash: Uint8Array;
  readonly storeTp?: StoreTpRequest | null;
}

/** `[prefix@]model@mooncake-kv-identity`, with prefix and model as in the keys of blocks. */
export function identityKey(modelName: string, cachePrefix: string): string {
  return (
    (cachePrefix === "" ? "" : `${cachePrefix}@`) + modelNameInKeys(modelName) + IDENTITY_KEY_ENDING
  );
}

export function poolIdentity(input: IdentityInput): PoolIdentity {
  const { kvCache, cachePrefix, noneHash } = input;
  const shape = selectStoreShape(kvCache, input.storeTp ?? null);
  return {
    keys: {
      hashAlgorithm: kvCache.hashAlgorithm,
      noneHash: Buffer.from(noneHash).toString("hex"),
      hashBlockSize: kvCache.hashBlockSize,
      hashLookaheadTokens: kvCache.hashLookaheadTokens,
      blockSizes: kvCache.groups.map((group) => groupSpanTokens(kvCache, group)),
      cachePrefix,
      storeShape: shape.namespace,
    },
    bytes: {
      dtype: kvCache.dtype,
      layout: valueLayout(kvCache),
      groups: kvCache.groups.map((group) => ({
        kind: group.kind,
        layers: group.layers,
        hashBlocks: groupSpanTokens(kvCache, group) / kvCache.hashBlockSize,
        heads:
          shape.tpSize === null
            ? localKvHeads(kvCache, group.heads)
            : kvCache.heads.kvHeads / shape.tpSize,
        headSize: (group.heads ?? kvCache.heads).headSize,
        stateBytes: group.kind === "mamba" ? (group.stateBytes ?? kvCache.stateBytes) : 0,
      })),
      heads: shape.tpSize === null ? localKvHeads(kvCache) : kvCache.heads.kvHeads / shape.tpSize,
      headSize: kvCache.heads.headSize,
      stateBytes: kvCache.stateBytes,
      pipelineRanks: kvCache.pp.size,
      prefillContextRanks: kvCache.pcp.size,
      decodeContextRanks: kvCache.dcp.size,
      weightsFingerprint: kvCache.weightsFingerprint,
      pipelineRank: ppRankInKeys(kvCache),
    },
  };
}

/**
 * A value is one block, so where the axis of blocks stands does not show in it: LBHNC and BLHNC make the same bytes. Hybrid models
 * lay all groups over the same pages; there the layout counts as a whole.
 */
function valueLayout({ layout, groups }: KvCacheConfig): string {
  return groups.length === 1 ? valueOrder(layout) : layout;
}
