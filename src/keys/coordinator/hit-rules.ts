/**
 * What a model's KV-cache groups need before a prefix of a prompt can be reused: full attention every block, a sliding window
 * the blocks inside it, a recurrent state the one block at its end. All of it is vLLM's rule (the store's coordinator, which
 * mirrors the local prefix cache's), so that a prefix that one side stored is the prefix that the other looks for.
 */
import { leastCommonMultiple } from "../../config/kv-cache-config.ts";
import type { KvGroupKind } from "../../config/kv-cache-config.ts";
import { MooncakeKvError } from "../../errors.ts";

export interface HitGroupInput {
  readonly kind: KvGroupKind;
  /** Tokens of one block over all decode-context ranks (`groupSpanTokens`). */
  readonly spanTokens: number;
  /** Tokens that a token of a `swa` or `swa_mla` group attends to, itself included. */
  readonly slidingWindow?: number;
  /** Tokens below the window that are kept as well (multi-token prediction replays them). */
  readonly extraRetainedTokens?: number;
  /** The group belongs to a drafter that needs the last block computed anew. */
  readonly eagle?: boolean;
}

export interface HitRulesInput {
  readonly groups: readonly HitGroupInput[];
  /** Tokens that one block hash covers; divides the span of every group. */
  readonly hashBlockSize: number;
  /** A drafter of the EAGLE kind. With no group flagged, all groups give up their last block. */
  readonly useEagle?: boolean;
  /** vLLM's retention interval in tokens: null keeps all that a hit can need, 0 only the prompt's own end. */
  readonly retentionInterval?: number | null;
  /** Below the scheduler's block size: hits end on hash blocks, inside of blocks. null: on whole blocks of every group. */
  readonly cacheHitAlignmentTokens?: number | null;
}

export interface HitGroup {
  /** `all` blocks, those of a `window`, or the last `state`. */
  readonly needs: "all" | "window" | "state";
  readonly spanTokens: number;
  /** The window with what is kept below it; 0 unless `needs` is "window". */
  readonly windowTokens: number;
  readonly eagle: boolean;
}

/** Groups that need the same, so that a block counts as there only when it is there in all of them. */
export interface HitGroupSet extends HitGroup {
  readonly members: readonly number[];
}

export interface HitRules {
  readonly groups: readonly HitGroup[];
  /** Full attention first: its answer bounds the others'. */
  readonly sets: readonly HitGroupSet[];
  readonly hashBlockSize: number;
  /** The least number of tokens that is whole blocks in every group. */
  readonly blockTokens: number;
  /** Hits end on multiples of this: `blockTokens`, or the hash block size when partial blocks are reused. */
  readonly alignmentTokens: number;
  readonly partialBlocks: boolean;
  readonly retentionInterval: number | null;
  /** The model has a drafter of the EAGLE kind, whichever groups are its own. */
  readonly useEagle: boolean;
  /**
   * Every group needs all blocks, they span the same tokens, and each is one value: a hit is the longest prefix of chunks, and
   * what is asked, loaded and saved follows from chunk numbers alone. Otherwise lookups, loads and saves are planned (lookup-plan, transfer-plan).
   */
  readonly uniform: boolean;
}

/** Throws INVALID_VALUE when a block size is no multiple of the hash block size, MISSING when a window is not stated. */
export function hitRules(input: HitRulesInput): HitRules {
  const { hashBlockSize, useEagle = false, cacheHitAlignmentTokens = null } = input;
  const plain = input.groups.map((group, index) => hitGroup(group, index, hashBlockSize));
  const blockTokens = plain.reduce((all, each) => leastCommonMultiple(all, each.spanTokens), 1);
  const sets = groupSets(plain, useEagle);
  const groups = plain.map((group, index) => ({
    ...group,
    eagle: sets.some((set) => set.eagle && set.members.includes(index)),
  }));
  const partialBlocks = cacheHitAlignmentTokens !== null && cacheHitAlignmentTokens < blockTokens;
  return {
    groups,
    sets,
    hashBlockSize,
    blockTokens,
    alignmentTokens: partialBlocks ? hashBlockSize : blockTokens,
    partialBlocks,
    retentionInterval: input.retentionInterval ?? null,
    useEagle,
    uniform:
      !partialBlocks &&
      groups.every((group) => isAll(group) && group.spanTokens === blockTokens && !group.eagle),
  };
}

/** Blocks in a row that a hit needs inside the window; with a drafter, one more that is then given up. */
export function windowBlocks(group: HitGroup, eagle: boolean): number {
  return Math.ceil((group.windowTokens - 1) / group.spanTokens) + (eagle ? 1 : 0);
}

/** Tokens that a drafter's group matches beyond a hit and gives up again. */
export function eagleMarginTokens(rules: HitRules, group: HitGroup): number {
  const fine = rules.partialBlocks && group.needs !== "window";
  return fine && group.spanTokens > rules.hashBlockSize ? rules.hashBlockSize : group.spanTokens;
}

export function alignDown(tokens: number, alignment: number): number {
  return tokens <= 0 ? 0 : tokens - (tokens % alignment);
}

function hitGroup(group: HitGroupInput, index: number, hashBlockSize: number): HitGroup {
  const { kind, spanTokens, slidingWindow, extraRetainedTokens = 0, eagle = false } = group;
  if (spanTokens % hashBlockSize !== 0) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: `groups[${index}].blockSize`,
      value: spanTokens,
      problem: `is no multiple of the hash block size ${hashBlockSize}`,
      remedy: "Give a hash block size that divides the block size of every group.",
    });
  }
  const needs = kind === "mamba" ? "state" : kind === "full" || kind === "mla" ? "all" : "window";
  if (needs === "window" && slidingWindow === undefined) {
    throw new MooncakeKvError({
      code: "MISSING",
      field: `groups[${index}].slidingWindow`,
      value: slidingWindow,
      problem: "a sliding-window group must state its window",
      remedy: "Give the window in tokens, as the model's configuration does.",
    });
  }
  const windowTokens = needs === "window" ? (slidingWindow ?? 0) + extraRetainedTokens : 0;
  return { needs, spanTokens, windowTokens, eagle };
}

function groupSets(groups: readonly HitGroup[], useEagle: boolean): readonly HitGroupSet[] {
  const sets: (HitGroup & { eagle: boolean; members: number[] })[] = [];
  groups.forEach((group, index) => {
    const same = sets.find(
      (set) =>
        set.needs === group.needs &&
        set.spanTokens === group.spanTokens &&
        set.windowTokens === group.windowTokens,
    );
    if (same === undefined) sets.push({ ...group, members: [index] });
    else {
      same.members.push(index);
      same.eagle ||= group.eagle;
    }
  });
  const noneFlagged = !sets.some((set) => set.eagle);
  return [...sets.filter(isAll), ...sets.filter((set) => !isAll(set))].map((set) => ({
    ...set,
    eagle: set.eagle || (useEagle && noneFlagged),
  }));
}

function isAll(group: HitGroup): boolean {
  return group.needs === "all";
}
