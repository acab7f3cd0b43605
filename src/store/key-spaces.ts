import { MooncakeKvError } from "../errors.ts";
import type { KeySpaceOptions, SegmentRule } from "../native/binding.ts";

/** What a worker side (rank) puts and gets, and what a lookup asks for: numbers into `KeySpacePlan.prefixes`. */
export interface WorkerKeySpace {
  readonly keySpaceId: number;
  readonly tensorParallelRank: number;
  /** Prefix under which this rank puts and gets, per group. */
  readonly ownPrefixOfGroup: readonly number[];
  /** Prefixes that must all exist for a block to count as present, per group, in vLLM's order. */
  readonly lookupPrefixesOfGroup: readonly (readonly number[])[];
  /** Ranks with identical bytes share the puts of a group: this one puts the chunks with chunk % putStep == putPhase. */
  readonly putStepOfGroup: readonly number[];
  readonly putPhaseOfGroup: readonly number[];
}

/** Key prefixes of one group as `poolKeyPrefixes` gives them. */
export interface GroupPrefixes {
  readonly putStep: number;
  readonly putPhase: number;
  readonly own: readonly string[];
  readonly lookup: readonly string[];
}

/** One key space as plain data: prefixes listed once, everything else as numbers into that list. */
export interface KeySpacePlan extends Omit<WorkerKeySpace, "keySpaceId"> {
  readonly prefixes: readonly string[];
  /** Per group, the segments of one block in value order. */
  readonly segments: readonly (readonly SegmentRule[])[];
}

export function planKeySpace(options: {
  readonly tensorParallelRank: number;
  readonly groups: readonly GroupPrefixes[];
  readonly segments: readonly (readonly SegmentRule[])[];
}): KeySpacePlan {
  const numbers = new Map<string, number>();
  const number = (prefix: string): number => {
    const known = numbers.get(prefix) ?? numbers.size;
    numbers.set(prefix, known);
    return known;
  };
  const { groups, segments, tensorParallelRank } = options;
  const plan = {
    tensorParallelRank,
    ownPrefixOfGroup: groups.map((group, index) => number(onlyPrefix(group.own, index))),
    lookupPrefixesOfGroup: groups.map((group) => group.lookup.map(number)),
    putStepOfGroup: groups.map((group) => group.putStep),
    putPhaseOfGroup: groups.map((group) => group.putPhase),
    segments,
  };
  return { ...plan, prefixes: [...numbers.keys()] };
}

/** Throws UNSUPPORTED for a rank that stores a block under several keys, or under none. */
function onlyPrefix(own: readonly string[], group: number): string {
  const [prefix, ...more] = own;
  if (prefix !== undefined && more.length === 0) return prefix;
  throw new MooncakeKvError({
    code: "UNSUPPORTED",
    field: `groups[${group}].own`,
    value: own,
    problem: "this build puts and gets a block of a rank under exactly one key",
    remedy: "Store blocks in the rank's own shape (no store_tp_size).",
  });
}

/** What the addon is told of a planned key space. */
export function keySpaceOptions(
  plan: KeySpacePlan,
  hashes: { readonly hashesSharedId: number; readonly hashBytes: number },
  blockCount: number,
): KeySpaceOptions {
  return { ...hashes, prefixes: plan.prefixes, groups: plan.segments, blockCount };
}
