export interface ResetOptions {
  /**
   * What is removed. Without it only this model's blocks go. With it those of all models under the cache_prefix; without a
   * cache_prefix everything in the pool, other deployments' keys too: vLLM's reset. Default false. How it is removed stays the same:
   * keys that a member has leased are waited for, where vLLM takes them from under their reader.
   */
  readonly force?: boolean;
}

/**
 * vLLM's ACK or NACK, with the reason. BUSY: requests or transfers are under way, nothing was removed; pause and try again.
 * SAVES_IN_FLIGHT, LOADS_IN_FLIGHT: some did not end within save_timeout_ms, nothing was removed. KEYS_LEFT: some keys were in use
 * or leased all that time, or may have been: a lease lasts 10 s from the last lookup. IDENTITY_MISMATCH: the pool is closed for this
 * member, and what is there is not its own. ENGINE: it did not do it.
 */
export type ResetAnswer =
  | { readonly acknowledged: true; readonly removedKeys: number }
  | {
      readonly acknowledged: false;
      readonly reason:
        | "BUSY"
        | "SAVES_IN_FLIGHT"
        | "LOADS_IN_FLIGHT"
        | "KEYS_LEFT"
        | "IDENTITY_MISMATCH"
        | "ENGINE";
      /** For a person. */
      readonly problem: string;
    };

export type ResetRefusal = Extract<ResetAnswer, { acknowledged: false }>["reason"];

export function refuseReset(reason: ResetRefusal, problem: string): ResetAnswer {
  return { acknowledged: false, reason, problem };
}
