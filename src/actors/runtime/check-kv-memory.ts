import type { KvCacheConfig, KvLayout } from "../../config/kv-cache-config.ts";
import { refuseUnknownKeys } from "../../config/kv-checks.ts";
import { fail, MooncakeKvError } from "../../errors.ts";
import { blockSegments } from "../../keys/kv-tensors.ts";
import { valueBytes } from "../../keys/segments.ts";
import type { KvTensor } from "../../keys/segments.ts";
import { checkValueBytes, storageBytes, tensorsOf } from "./kv-memory.ts";
import type { BlockSegment, UserKvMemory, UserKvStorages } from "./kv-memory.ts";

/** Throws INVALID_TYPE or INVALID_VALUE for memory of another shape, and for segments that do not fit or hold no whole block. */
export function checkKvMemory(
  kvMemory: UserKvMemory | UserKvStorages,
  kvCache: KvCacheConfig,
): void {
  if (kvMemory?.kind === "storages") {
    refuseUnknownKeys(kvMemory, ["kind", "storages", "tensors"], "kvMemory.");
    checkStorages(kvMemory, kvCache);
    return;
  }
  const { kind, memory, segments } = (kvMemory ?? {}) as Partial<UserKvMemory>;
  if (kind !== "user" || !(memory instanceof Uint8Array)) {
    const remedy =
      'Give { kind: "user", memory: a Uint8Array, segments } or { kind: "storages", storages }, or leave it out.';
    const [field, value] = kind === "user" ? ["kvMemory.memory", memory] : ["kvMemory.kind", kind];
    fail("INVALID_TYPE", field, value, "is not the KV memory of a serving loop", remedy);
  }
  refuseUnknownKeys(kvMemory, ["kind", "memory", "segments"], "kvMemory.");
  const lists: unknown = segments;
  if (!Array.isArray(lists) || !lists.every((group) => Array.isArray(group))) {
    const remedy = "Give one list of segments a group, which together hold one block of it.";
    fail("INVALID_TYPE", "kvMemory.segments", lists, "must be lists of segments", remedy);
  }
  checkRules(lists.flat());
  checkValueBytes("kvMemory.segments", lists.map(valueBytes), kvCache);
  checkSegments(lists.flat(), memory.byteLength, kvCache.blockCount);
}

function checkStorages(kvMemory: UserKvStorages, kvCache: KvCacheConfig): void {
  const storages: unknown = kvMemory.storages;
  if (!Array.isArray(storages) || !storages.every((each) => each instanceof Uint8Array)) {
    const remedy = "Give the allocations of the KV cache as a list of Uint8Array.";
    fail("INVALID_TYPE", "kvMemory.storages", storages, "is no list of memory", remedy);
  }
  if (kvMemory.tensors !== undefined) checkTensors(kvMemory.tensors);
  const tensors = tensorsOf(kvMemory, kvCache);
  checkOrder(tensors.flat(), kvCache.layout);
  const wanted = storageBytes(tensors);
  const given = storages.map((storage: Uint8Array) => storage.byteLength);
  if (given.length !== wanted.length || given.some((bytes, index) => bytes !== wanted[index])) {
    const problem = `the views lie in storages of ${wanted.join(", ")} bytes`;
    const remedy =
      "Give exactly these allocations, or views with the right storage and storageBytes.";
    fail("INVALID_VALUE", "kvMemory.storages", given, problem, remedy);
  }
  // In the rank's own shape: shards of a finer cut store have equal parts of these bytes.
  const bytes = blockSegments(kvCache, null, tensors).map((values) => valueBytes(values.flat()));
  checkValueBytes("kvMemory.tensors", bytes, kvCache);
}

function checkTensors(tensors: unknown): asserts tensors is readonly (readonly KvTensor[])[] {
  const whole = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
  const axes = (value: unknown): boolean => Array.isArray(value) && value.every(whole);
  const isTensor = (value: unknown): boolean => {
    const tensor = (value ?? {}) as Partial<KvTensor>;
    const { elementBytes, storage, storageBytes: bytes, offset, shape, strideBytes } = tensor;
    return [elementBytes, storage, bytes, offset].every(whole) && axes(shape) && axes(strideBytes);
  };
  const lists = Array.isArray(tensors) && tensors.every((group) => Array.isArray(group));
  if (lists && tensors.flat().every(isTensor)) return;
  const remedy =
    "Give each view as { shape, strideBytes, elementBytes, storage, storageBytes, offset }, one list a group.";
  fail("INVALID_TYPE", "kvMemory.tensors", tensors, "must be lists of views", remedy);
}

/**
 * The views say where heads and tokens lie, the layout what others read there: in another order every block would be found and
 * read wrong. Views that do not tell heads from tokens are not looked at.
 */
function checkOrder(tensors: readonly KvTensor[], layout: KvLayout): void {
  const headsOutside = layout.indexOf("H") < layout.indexOf("N");
  for (const { shape, strideBytes } of tensors) {
    const [, heads = 1, states = 1] = shape;
    const [, head = 0, state = 0] = strideBytes;
    if (shape.length !== 4 || heads === 1 || states === 1 || head > state === headsOutside)
      continue;
    const other = headsOutside ? "heads within tokens" : "tokens within heads";
    const remedy = `Lay the memory out as ${layout}, or state the layout that it has: kvCache.layout here, and the same for all members (vLLM: VLLM_KV_CACHE_LAYOUT).`;
    const problem = `the views have ${other}, and the KV cache layout is ${layout}`;
    fail("INVALID_VALUE", "kvMemory.tensors", { shape, strideBytes }, problem, remedy);
  }
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
