import type { ConnectorConfig } from "../../config/connector-config.ts";
import { blockBytes, type KvCacheConfig, type KvLayout } from "../../config/kv-cache-config.ts";
import { MooncakeKvError } from "../../errors.ts";
import { blockSegments, kvTensors } from "../../keys/kv-tensors.ts";
import { keyNamespaceOf } from "../../keys/pool-keys.ts";
import { segmentRules } from "../../keys/segments.ts";
import type { KvTensor } from "../../keys/segments.ts";
import { selectStoreShape } from "../../keys/store-shape.ts";
import type { ValueSegments } from "../../store/key-spaces.ts";
import type { NativeBinding } from "../../native/binding.ts";

/** KV memory of the serving loop: ours, or the user's. */
export type KvMemory =
  | { readonly kind: "managed"; /** Default: that of the KV cache. */ readonly layout?: KvLayout }
  | UserKvMemory
  | UserKvStorages;

/**
 * KV memory of the serving loop itself, in one piece, with its segments stated one by one. It is pinned until `stop`; other
 * threads read and write it in place. An engine whose calls may outlast its thread (mooncake, or any in a child process) does not
 * touch it: values are copied once, through memory of the runtime, where managed memory is not copied.
 */
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

/**
 * KV memory of the serving loop itself, as its allocations and the layers' views into them (vLLM's register_kv_caches): segments
 * follow as they do there, for any layout, hybrid models and stores that are cut finer. Pinned until `stop`, and copied where
 * `UserKvMemory` is.
 */
export interface UserKvStorages {
  readonly kind: "storages";
  /** Allocations, by the number that `KvTensor.storage` names. */
  readonly storages: readonly Uint8Array[];
  /** Per KV-cache group, the views of its layers. Absent: as vLLM lays this KV cache out, in the configured layout. */
  readonly tensors?: readonly (readonly KvTensor[])[];
}

export interface KvRegions {
  /** Of the addon, one for each storage. */
  readonly regionIds: readonly number[];
  readonly segments: ValueSegments;
}

/**
 * KV memory as regions of the addon, with the segments of each value of a block, in the shape that the pool has them. The user's
 * memory was checked before (`checkKvMemory`).
 */
export function openKvMemory(options: {
  readonly native: NativeBinding;
  readonly kvCache: KvCacheConfig;
  readonly kvMemory: KvMemory;
  readonly connector: ConnectorConfig;
}): KvRegions {
  const { native, kvCache, kvMemory, connector } = options;
  if (kvMemory.kind === "user") {
    const regionId = native.regionPin(kvMemory.memory);
    const segments = kvMemory.segments.map((group) => [
      group.map((rule) => ({ regionId, ...rule })),
    ]);
    return { regionIds: [regionId], segments };
  }
  // The shape in the pool, and with it the names of keys, follows the layout that was resolved, wherever our memory has its blocks.
  const { tpSize } = selectStoreShape(kvCache, keyNamespaceOf(connector).storeTp ?? null);
  const tensors = tensorsOf(kvMemory, kvCache);
  const segments = blockSegments(kvCache, tpSize, tensors);
  const open: (() => number)[] =
    kvMemory.kind === "storages"
      ? kvMemory.storages.map((storage) => () => native.regionPin(storage))
      : storageBytes(tensors).map((bytes) => () => native.regionCreate(bytes));
  const regionIds: number[] = [];
  try {
    for (const region of open) regionIds.push(region());
  } catch (error) {
    for (const regionId of regionIds) native.regionRelease(regionId);
    throw error;
  }
  return {
    regionIds,
    segments: segments.map((values) => values.map((value) => segmentRules(value, regionIds))),
  };
}

/** The views of a KV cache's layers. Where segments are stated one by one there are none. */
export function tensorsOf(
  kvMemory: Exclude<KvMemory, UserKvMemory>,
  kvCache: KvCacheConfig,
): readonly (readonly KvTensor[])[] {
  if (kvMemory.kind === "managed")
    return kvTensors({ ...kvCache, layout: kvMemory.layout ?? kvCache.layout });
  return kvMemory.tensors ?? kvTensors(kvCache);
}

/** Bytes of each storage that the views lie in. */
export function storageBytes(tensors: readonly (readonly KvTensor[])[]): number[] {
  const bytes: number[] = [];
  for (const { storage, storageBytes: size } of tensors.flat()) bytes[storage] = size;
  return bytes;
}

/** A value holds the segments one after the other: less or more than a block would be wrong bytes under a good key. */
export function checkValueBytes(
  field: string,
  bytesOfGroup: readonly number[],
  kvCache: KvCacheConfig,
): void {
  const refuse = (value: unknown, problem: string): never => {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field,
      value,
      problem,
      remedy: "Give for each group what together holds one block of it.",
    });
  };
  if (bytesOfGroup.length !== kvCache.groups.length)
    refuse(bytesOfGroup.length, `${kvCache.groups.length} lists are needed, one for each group`);
  for (const [group, bytes] of bytesOfGroup.entries()) {
    const wanted = blockBytes(kvCache, group);
    if (bytes !== wanted) refuse(bytes, `a block of group ${group} must have ${wanted} bytes`);
  }
}
