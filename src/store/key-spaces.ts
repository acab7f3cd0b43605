import { GROUPS_MAX } from "../blocks/layout.ts";
import { MooncakeKvError } from "../errors.ts";
import type { KeySpaceOptions, SegmentRule } from "../native/binding.ts";

/** What a worker side (rank) puts and gets, and what a lookup asks for: numbers into `KeySpacePlan.prefixes`. */
export interface WorkerKeySpace {
  readonly keySpaceId: number;
  readonly tensorParallelRank: number;
  /** Prefix of the first value of a block, per group: the only one of models whose transfers are not planned. */
  readonly ownPrefixOfGroup: readonly number[];
  /** Prefixes under which this rank puts and gets a block, per group: one for each value (shard) that it is stored as. */
  readonly ownPrefixesOfGroup: readonly (readonly number[])[];
  /** Number of each group's first value among the key space's values: entries (ENTRY_GROUP) name values, not groups. */
  readonly firstValueOfGroup: readonly number[];
  /** Bytes of one value of a block, per group. */
  readonly bytesOfGroup: readonly number[];
  /** The same by number of the value (ENTRY_GROUP). */
  readonly bytesOfValue: readonly number[];
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
  /** Of each value of all groups in turn (`firstValueOfGroup`), the segments of one block. */
  readonly segments: readonly (readonly SegmentRule[])[];
}

/** Per group and per value of a block, its segments. */
export type ValueSegments<Segment = SegmentRule> = readonly (readonly (readonly Segment[])[])[];

/** Throws INVALID_VALUE for a group with other values than keys, UNSUPPORTED for more values than the addon tells apart. */
export function planKeySpace(options: {
  readonly tensorParallelRank: number;
  readonly groups: readonly GroupPrefixes[];
  readonly segments: ValueSegments;
}): KeySpacePlan {
  const numbers = new Map<string, number>();
  const number = (prefix: string): number => {
    const known = numbers.get(prefix) ?? numbers.size;
    numbers.set(prefix, known);
    return known;
  };
  const { groups, segments, tensorParallelRank } = options;
  groups.forEach((group, index) => checkValues(group.own.length, segments[index]?.length, index));
  const values = segments.flat();
  if (values.length > GROUPS_MAX) throw tooManyValues(values.length);
  const ownPrefixesOfGroup = groups.map((group) => group.own.map(number));
  let next = 0;
  const plan = {
    tensorParallelRank,
    ownPrefixOfGroup: ownPrefixesOfGroup.map(([first = 0]) => first),
    ownPrefixesOfGroup,
    firstValueOfGroup: groups.map(({ own }) => (next += own.length) - own.length),
    bytesOfGroup: segments.map(([first = []]) => bytesOf(first)),
    bytesOfValue: values.map(bytesOf),
    lookupPrefixesOfGroup: groups.map((group) => group.lookup.map(number)),
    putStepOfGroup: groups.map((group) => group.putStep),
    putPhaseOfGroup: groups.map((group) => group.putPhase),
    segments: values,
  };
  return { ...plan, prefixes: [...numbers.keys()] };
}

/** Most values of a block over all groups: one, or the shards of a store that is cut finer. */
export function valuesPerBlock(space: Pick<WorkerKeySpace, "ownPrefixesOfGroup">): number {
  return Math.max(1, ...space.ownPrefixesOfGroup.map((own) => own.length));
}

function bytesOf(value: readonly { readonly bytes: number }[]): number {
  return value.reduce((all, { bytes }) => all + bytes, 0);
}

function checkValues(keys: number, values: number | undefined, group: number): void {
  if (keys >= 1 && keys === values) return;
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: `kvMemory.segments[${group}]`,
    value: values,
    problem: `a block of this group is stored under ${keys} key(s), each with a value of its own`,
    remedy: "Give one list of segments for each key.",
  });
}

function tooManyValues(values: number): MooncakeKvError {
  return new MooncakeKvError({
    code: "UNSUPPORTED",
    field: "store_tp_size",
    value: values,
    problem: `cuts the blocks of a rank into more than ${GROUPS_MAX} values`,
    remedy: `Choose a store_tp_size of at most ${GROUPS_MAX} times the tensor-parallel size.`,
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
