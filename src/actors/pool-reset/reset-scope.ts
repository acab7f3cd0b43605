import { IDENTITY_KEY_ENDING } from "../../connector/identity/identity.ts";
import type { RemovalScope } from "../../store/engine-calls.ts";

export interface ResetScopeInput {
  readonly cachePrefix: string;
  /** As in keys. */
  readonly model: string;
  readonly force: boolean;
}

/** What follows a model's name in keys: ranks, the store's shape, or what members publish about themselves. */
const BEHIND_MODEL = ["@tp_rank:", "@store_tp:", "@store_pp:", IDENTITY_KEY_ENDING];

/**
 * Which keys a reset removes: this model's, or by force all that have its cache_prefix, or without one all. A deployment whose
 * cache_prefix is this model's name keeps its keys, and one whose model is named as this cache_prefix.
 */
export function resetScope({ cachePrefix, model, force }: ResetScopeInput): RemovalScope[] {
  if (force && cachePrefix === "") return [{ operation: "removeAll" }];
  const stem = (cachePrefix === "" ? "" : `${cachePrefix}@`) + model;
  const own = BEHIND_MODEL.map(
    (next) => ({ operation: "removePrefix", prefix: stem + next }) as const,
  );
  if (!force) return own;
  const all = { operation: "removeCachePrefix", prefix: cachePrefix } as const;
  // What others' prefixes could hold is not taken for a model: of names with an @ this one alone is known.
  return model.includes("@") ? [all, ...own] : [all];
}
