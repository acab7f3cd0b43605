/** Keys and memory of the actors' test world: each group has its own part of the memory, each value of a block a key of its own. */
import type { SegmentRule } from "../../src/native/binding.ts";
import { planKeySpace, type KeySpacePlan, type ValueSegments } from "../../src/store/key-spaces.ts";

export const BLOCK_BYTES = 32;

export function blockSegments(
  groups: number,
  blockCount: number,
  valuesPerBlock: number,
): ValueSegments {
  const bytes = BLOCK_BYTES / valuesPerBlock;
  return Array.from({ length: groups }, (_, group) =>
    Array.from({ length: valuesPerBlock }, (__, value): SegmentRule[] => [
      {
        regionId: 0,
        offset: group * blockCount * BLOCK_BYTES + value * bytes,
        strideBytes: BLOCK_BYTES,
        bytes,
      },
    ]),
  );
}

/** `putStep`: so many ranks have equal bytes and share keys; absent: each rank has keys of its own. */
export function planKeySpaces(
  segments: ValueSegments,
  ranks: number,
  putStep: number | undefined,
): KeySpacePlan[] {
  const prefixes = (rank: number, group: number): string[] => {
    const values = segments[group]?.length ?? 0;
    return Array.from(
      { length: values },
      (_, value) => `m@tp_rank:${rank * values + value}@group:${group}`,
    );
  };
  return Array.from({ length: ranks }, (_, rank) =>
    planKeySpace({
      tensorParallelRank: rank,
      groups: segments.map((_values, group) => ({
        putStep: putStep ?? 1,
        putPhase: (rank + group) % (putStep ?? 1),
        own: prefixes(putStep === undefined ? rank : 0, group),
        lookup: Array.from({ length: ranks }, (__, other) => prefixes(other, group)).flat(),
      })),
      segments,
    }),
  );
}
