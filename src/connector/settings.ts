import type { ConnectorConfig } from "../config/connector-config.ts";

/** What both sides of the connector need of the configuration: a `ConnectorConfig` fits as it is. */
export interface ConnectorSettings extends Pick<
  ConnectorConfig,
  | "role"
  | "loadAsync"
  | "lookupAsync"
  | "enableLookup"
  | "canSave"
  | "saveDecodeCache"
  | "lookupTimeoutMs"
  | "loadTimeoutMs"
  | "saveTimeoutMs"
  | "minLoadTokens"
  | "loadFailurePolicy"
> {
  /**
   * How long an answered lookup may be used again while its request waits for blocks. Default: lookupTimeoutMs. 0 asks anew
   * each time, as vLLM does. An old answer costs a recompute at worst, because a load that fails is cut back.
   */
  readonly answerLifetimeMs?: number;
  /**
   * Failed loads after which a request is still looked up again. Default 0: a request whose load failed computes, so that a
   * pool with bad blocks cannot keep it in a circle. vLLM has no such limit.
   */
  readonly loadRetriesMax?: number;
}

/** That many engine failures in a row and lookups answer ENGINE_DOWN at once. */
export const ENGINE_FAILURES_MAX = 3;
export const PROBE_BACK_OFF_MIN_MS = 100;
export const PROBE_BACK_OFF_MAX_MS = 10_000;
/** Ranks whose worker sides report a job: one bit each in JOB_RANKS. */
export const RANKS_MAX = 31;
