import { IDENTITY_KEY_ENDING } from "../../connector/identity/identity.ts";

export interface ResetScopeInput {
  readonly cachePrefix: string;
  /** As in keys. */
  readonly model: string;
  readonly force: boolean;
}

/**
 * How the keys begin that a reset removes; null: all keys of the pool. A model's keys go on behind its name with the tensor-parallel
 * rank or the store's shape: so a deployment whose cache_prefix is this model's name keeps its own.
 */
export function resetScope({
  cachePrefix,
  model,
  force,
}: ResetScopeInput): readonly string[] | null {
  const stem = cachePrefix === "" ? "" : `${cachePrefix}@`;
  if (force) return stem === "" ? null : [stem];
  return ["@tp_rank:", "@store_", IDENTITY_KEY_ENDING].map((next) => stem + model + next);
}
