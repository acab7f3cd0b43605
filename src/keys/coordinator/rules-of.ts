import { groupSpanTokens } from "../../config/kv-cache-config.ts";
import type { KvCacheConfig } from "../../config/kv-cache-config.ts";
import { hitRules } from "./hit-rules.ts";
import type { HitRules } from "./hit-rules.ts";

/**
 * The rules of this KV cache: the only way from its description to what a hit needs. Plain data, the same in every thread.
 * `valuesPerBlock`: keys under which a rank stores a block; with more than one, transfers are planned.
 */
export function hitRulesOf(kvCache: KvCacheConfig, valuesPerBlock = 1): HitRules {
  const { hashBlockSize, useEagle, retentionInterval, cacheHitAlignmentTokens } = kvCache;
  const rules = hitRules({
    groups: kvCache.groups.map((group) => ({
      kind: group.kind,
      spanTokens: groupSpanTokens(kvCache, group),
      ...(group.slidingWindow === null ? {} : { slidingWindow: group.slidingWindow }),
      extraRetainedTokens: group.extraRetainedTokens,
      eagle: group.eagle,
    })),
    hashBlockSize,
    useEagle,
    retentionInterval,
    cacheHitAlignmentTokens,
  });
  return { ...rules, uniform: rules.uniform && valuesPerBlock === 1 };
}
