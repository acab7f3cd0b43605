/** The fields of a KV-cache description that only hybrid models and drafters need: windows, states, drafters' groups. */
import { fail } from "../errors.ts";
import { flag } from "./kv-checks.ts";
import type { KvCacheConfig, KvCacheConfigInput, KvCacheGroup, Rank } from "./kv-cache-config.ts";

/** What the description of a group may name. */
export const GROUP_KEYS = [
  "kind",
  "layers",
  "blockSize",
  "slidingWindow",
  "extraRetainedTokens",
  "eagle",
  "heads",
  "stateBytes",
] satisfies (keyof KvCacheConfigInput["groups"][number])[];

type GroupInput = KvCacheConfigInput["groups"][number];
type GroupNeeds = Pick<KvCacheGroup, "slidingWindow" | "extraRetainedTokens" | "eagle">;

/** Throws MISSING or INVALID_VALUE for a window that is absent where it is needed, or given where it means nothing. */
export function normalizeGroupNeeds(group: GroupInput, field: string): GroupNeeds {
  const window = group.slidingWindow ?? null;
  const windowed = group.kind === "swa" || group.kind === "swa_mla";
  if (windowed && window === null) {
    const problem = "a sliding-window group must state its window";
    fail("MISSING", `${field}.slidingWindow`, window, problem, "Give the window in tokens.");
  }
  if (!windowed && window !== null) {
    const problem = `a group of kind "${group.kind}" has no window`;
    fail("INVALID_VALUE", `${field}.slidingWindow`, window, problem, "Remove it.");
  }
  return {
    slidingWindow: window === null ? null : whole(window, 1, `${field}.slidingWindow`),
    extraRetainedTokens: whole(group.extraRetainedTokens ?? 0, 0, `${field}.extraRetainedTokens`),
    eagle: flag(group.eagle ?? false, `${field}.eagle`),
  };
}

/**
 * vLLM's store connector refuses prefill-context ranks with several groups, and its managers of windows and states know none at all.
 * Throws UNSUPPORTED.
 */
export function refuseContextRanks(groups: readonly KvCacheGroup[], pcp: Rank): void {
  const whole = groups.every(({ kind }) => kind === "full" || kind === "mla");
  if (pcp.size === 1 || (groups.length === 1 && whole)) return;
  const problem =
    "prefill-context ranks are not supported with several KV-cache groups, windows or states, as in vLLM";
  fail("UNSUPPORTED", "pcp.size", pcp.size, problem, "Use 1 for hybrid models.");
}

type Hybrid = Pick<
  KvCacheConfig,
  "stateBytes" | "useEagle" | "retentionInterval" | "cacheHitAlignmentTokens"
>;

export function normalizeHybrid(
  input: KvCacheConfigInput,
  groups: readonly KvCacheGroup[],
  chunkTokens: number,
): Hybrid {
  const { retentionInterval: interval = 0, cacheHitAlignmentTokens: alignment = null } = input;
  const stateBytes = whole(input.stateBytes ?? 0, 0, "stateBytes");
  const unsized = groups.some((group) => group.kind === "mamba" && group.stateBytes === undefined);
  if (stateBytes === 0 && unsized) {
    const problem = "a model with Mamba groups must state the bytes of a layer's state";
    fail("MISSING", "stateBytes", input.stateBytes, problem, "Give the page size of its layers.");
  }
  return {
    stateBytes,
    useEagle: flag(input.useEagle ?? false, "useEagle"),
    retentionInterval: interval === null ? null : normalizeRetention(interval, groups, chunkTokens),
    cacheHitAlignmentTokens:
      alignment === null ? null : whole(alignment, 1, "cacheHitAlignmentTokens"),
  };
}

/** vLLM's rule for prefix_cache_retention_interval. */
function normalizeRetention(
  given: number,
  groups: readonly KvCacheGroup[],
  chunkTokens: number,
): number {
  const field = "retentionInterval";
  const interval = whole(given, 0, field);
  if (interval > 0 && groups.every(({ kind }) => kind === "full" || kind === "mla")) {
    const problem = "says which window blocks and states are kept, and this model has none";
    fail("INVALID_VALUE", field, interval, problem, "Leave it out, or give 0.");
  }
  if (interval % chunkTokens === 0) return interval;
  const problem = `must be a multiple of the ${chunkTokens} tokens that are whole blocks in every group`;
  return fail(
    "INVALID_VALUE",
    field,
    interval,
    problem,
    "Give such a multiple, 0, or null for all.",
  );
}

function whole(value: unknown, least: number, field: string): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= 0x7fffffff)
    return value;
  const problem = `must be a whole number from ${least} to 2^31 - 1`;
  return fail("INVALID_VALUE", field, value, problem, "Correct the number.");
}
