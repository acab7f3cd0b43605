import type { TableDimensions } from "../blocks/tables.ts";
import { MooncakeKvError } from "../errors.ts";
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
 * A chunk (one block in every group, named by one hash) spans `schedulerBlockSize` tokens: with decode-context ranks that is
 * more than a block holds on one rank. Throws UNSUPPORTED for groups of different spans: rows, jobs and lookups count one
 * block a chunk and group, so such blocks would be stored under the hashes of other tokens.
 */
export function tableDimensions(kvCache: KvCacheConfig, sizes: TableSizes): TableDimensions {
  const spans = kvCache.groups.map((group) => groupSpanTokens(kvCache, group));
  const chunkTokens = schedulerBlockSize(kvCache);
  const odd = spans.findIndex((span) => span !== chunkTokens);
  if (odd >= 0) {
    throw new MooncakeKvError({
      code: "UNSUPPORTED",
      field: `groups[${odd}].blockSize`,
      value: kvCache.groups[odd]?.blockSize,
      problem: `this build serves groups of equal block spans only, and these span ${spans.join(", ")} tokens`,
      remedy: `Give every group blocks that span ${chunkTokens} tokens.`,
    });
  }
  const { requestSlots, jobSlots, tokensPerRequestMax, tokensMax, stepSequencesMax } = sizes;
  return {
    requestSlots,
    jobSlots,
    tokensPerRequestMax,
    tokensMax,
    hashBlockSize: kvCache.hashBlockSize,
    extraEncoding: HASH_ALGORITHMS[kvCache.hashAlgorithm].encoding,
    blockSize: chunkTokens,
    groups: kvCache.groups.length,
    hashLookaheadTokens: kvCache.hashLookaheadTokens,
    blockCount: kvCache.blockCount,
    stepSequencesMax,
  };
}
