import type { TableDimensions } from "../blocks/tables.ts";
import { groupSpanTokens, HASH_ALGORITHMS, schedulerBlockSize } from "./kv-cache-config.ts";
import type { KvCacheConfig } from "./kv-cache-config.ts";

/** What the shared tables' sizes depend on besides the KV cache. */
export type TableSizes = Pick<
  TableDimensions,
  "requestSlots" | "jobSlots" | "tokensPerRequestMax" | "tokensMax" | "stepSequencesMax"
>;

/**
 * Dimensions of the shared tables for this KV cache: the only place where the one becomes the other.
 *
 * A chunk (whole blocks in every group) spans `schedulerBlockSize` tokens: with decode-context ranks that is more than a block
 * holds on one rank, with groups of different blocks it is several blocks of some.
 */
export function tableDimensions(kvCache: KvCacheConfig, sizes: TableSizes): TableDimensions {
  const { requestSlots, jobSlots, tokensPerRequestMax, tokensMax, stepSequencesMax } = sizes;
  return {
    requestSlots,
    jobSlots,
    tokensPerRequestMax,
    tokensMax,
    hashBlockSize: kvCache.hashBlockSize,
    hashLookaheadTokens: kvCache.hashLookaheadTokens,
    extraEncoding: HASH_ALGORITHMS[kvCache.hashAlgorithm].encoding,
    blockSize: schedulerBlockSize(kvCache),
    groups: kvCache.groups.length,
    groupSpanTokens: kvCache.groups.map((group) => groupSpanTokens(kvCache, group)),
    blockCount: kvCache.blockCount,
    stepSequencesMax,
  };
}
