import { blockBytes, type KvCacheConfig } from "../../config/kv-cache-config.ts";
import { fail, MooncakeKvError } from "../../errors.ts";
import type { ValueSegments } from "../../store/key-spaces.ts";
import type { NativeBinding } from "../../native/binding.ts";

/** KV memory of the serving loop: ours (blocks outermost, one segment a block), or the user's with its segments per group. */
export type KvMemory = { readonly kind: "managed" } | UserKvMemory;

/** KV memory of the serving loop itself. It is pinned until `stop`; other threads read and write it in place. */
export interface UserKvMemory {
  readonly kind: "user";
  readonly memory: Uint8Array;
  /** Per KV-cache group the segments of a block, in the order of the value's bytes: a value is their concatenation. */
  readonly segments: readonly (readonly BlockSegment[])[];
}
/** Where one segment of each block lies: that of block b begins at byte `offset + b * strideBytes` of the memory. */
export interface BlockSegment {
  readonly offset: number;
  readonly strideBytes: number;
  readonly bytes: number;
}

/** KV memory as a region of the addon, with the segments of one block per group. Throws INVALID_VALUE for segments that do not fit. */
export function openKvMemory(options: {
  readonly native: NativeBinding;
  readonly kvCache: KvCacheConfig;
  readonly kvMemory: KvMemory;
}): {
  regionId: number;
  segments: ValueSegments;
} {
  const { native, kvCache, kvMemory } = options;
  if (kvMemory.kind === "user") {
    checkKvMemory(kvMemory, kvCache);
    const regionId = native.regionPin(kvMemory.memory);
    return {
      regionId,
      segments: kvMemory.segments.map((group) => [group.map((rule) => ({ regionId, ...rule }))]),
    };
  }
  const bytes = kvCache.groups.map((_, group) => blockBytes(kvCache, group));
  const regionId = native.regionCreate(Math.max(...bytes) * kvCache.blockCount);
  return {
    regionId,
    segments: bytes.map((size) => [[{ regionId, offset: 0, strideBytes: size, bytes: size }]]),
  };
}

/** Throws INVALID_TYPE or INVALID_VALUE for memory of another shape, and for segments that do not fit or hold no whole block. */
export function checkKvMemory(kvMemory: UserKvMemory, kvCache: KvCacheConfig): void {
  const { kind, memory, segments } = (kvMemory ?? {}) as Partial<UserKvMemory>;
  if (kind !== "user" || !(memory instanceof Uint8Array)) {
    const remedy = 'Give { kind: "user", memory: a Uint8Array, segments }, or leave it out.';
    const [field, value] = kind === "user" ? ["kvMemory.memory", memory] : ["kvMemory.kind", kind];
    fail("INVALID_TYPE", field, value, "is not the KV memory of a serving loop", remedy);
  }
  const lists: unknown = segments;
  if (!Array.isArray(lists) || !lists.every((group) => Array.isArray(group))) {
    const remedy = "Give one list of segments a group, which together hold one block of it.";
    fail("INVALID_TYPE", "kvMemory.segments", lists, "must be lists of segments", remedy);
  }
  checkRules(lists.flat());
  checkSizes(lists, kvCache);
  checkSegments(lists.flat(), memory.byteLength, kvCache.blockCount);
}

function checkRules(rules: readonly unknown[]): void {
  for (const rule of rules) {
    const { offset, strideBytes, bytes } = (rule ?? {}) as Partial<BlockSegment>;
    if ([offset, strideBytes, bytes].every((value) => Number.isSafeInteger(value))) continue;
    const remedy = "Give each segment as { offset, strideBytes, bytes } in whole numbers.";
    fail("INVALID_TYPE", "kvMemory.segments", rule, "holds something that is no segment", remedy);
  }
}

function checkSegments(
  rules: readonly BlockSegment[],
  memoryBytes: number,
  blockCount: number,
): void {
  for (const { offset, strideBytes, bytes } of rules) {
    const end = offset + (blockCount - 1) * strideBytes + bytes;
    if (offset >= 0 && bytes > 0 && strideBytes >= 0 && end <= memoryBytes) continue;
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "kvMemory.segments",
      value: { offset, strideBytes, bytes },
      problem: `with ${blockCount} blocks this segment ends at byte ${end} of ${memoryBytes}`,
      remedy:
        "Correct offset, strideBytes, bytes or blockCount so that every block lies inside the memory.",
    });
  }
}

/** A value holds the segments one after the other: less or more than a block would be wrong bytes under a good key. */
function checkSizes(segments: readonly (readonly BlockSegment[])[], kvCache: KvCacheConfig): void {
  const refuse = (value: unknown, problem: string): never => {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "kvMemory.segments",
      value,
      problem,
      remedy: "Give one list of segments a group, which together hold one block of it.",
    });
  };
  if (segments.length !== kvCache.groups.length)
    refuse(segments.length, `${kvCache.groups.length} lists are needed, one for each group`);
  for (const [group, rules] of segments.entries()) {
    const bytes = rules.reduce((sum, rule) => sum + rule.bytes, 0);
    const wanted = blockBytes(kvCache, group);
    if (bytes !== wanted) refuse(bytes, `the segments of group ${group} must have ${wanted} bytes`);
  }
}
