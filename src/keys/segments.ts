/**
 * Where the bytes of one block lie in the memory of the KV cache: the scatter-gather list of a pool value, which is their plain
 * concatenation. The lists equal vLLM's, so that a value that one side wrote is the block that the other expects.
 */
import { MooncakeKvError } from "../errors.ts";
import type { SegmentRule } from "../native/binding.ts";

/** One layer's cache as a view into a storage (an allocation). Axis 0 counts blocks (or equal parts of blocks). */
export interface KvTensor {
  readonly shape: readonly number[];
  readonly strideBytes: readonly number[];
  readonly elementBytes: number;
  readonly storage: number;
  readonly storageBytes: number;
  /** Byte of the storage at which the view begins. */
  readonly offset: number;
}

/** One segment of every block: that of block b begins at byte `offset + b * strideBytes` of the storage. */
export interface StorageSegment {
  readonly storage: number;
  readonly offset: number;
  readonly strideBytes: number;
  readonly bytes: number;
}

/** A rank's block cut by head for a store of more tensor-parallel shards. */
export interface ShardCut {
  readonly layout: "LBHNC" | "LBNHC";
  /** Values that one block gives on this rank. */
  readonly shards: number;
  readonly headsPerShard: number;
}

/**
 * The whole block as one value. Views that fill their storage block by block give one segment a storage, whatever layers share
 * it; otherwise one a layer, or one a layer and head where heads lie apart. Throws UNSUPPORTED for a block whose parts cannot be
 * told apart, INVALID_VALUE when a segment leaves its storage.
 */
export function rankSegments(tensors: readonly KvTensor[], blockCount: number): StorageSegment[] {
  const segments = new Map<string, StorageSegment>();
  for (const tensor of tensors.map((each) => wholeBlocks(each, blockCount))) {
    for (const segment of tensorSegments(tensor, blockCount)) {
      const at = `${segment.storage}:${segment.offset}`;
      if (!segments.has(at)) segments.set(at, checked(segment, tensor, blockCount));
    }
  }
  return [...segments.values()];
}

/** Per shard of the rank, the segments of its value. Throws INVALID_VALUE for views that are not packed in the cut's layout. */
export function shardSegments(
  tensors: readonly KvTensor[],
  blockCount: number,
  cut: ShardCut,
): StorageSegment[][] {
  return Array.from({ length: cut.shards }, (_, shard) =>
    tensors.flatMap((tensor) => {
      const strides = packedStrides(tensor, blockCount, cut);
      const [strideBytes, headBytes, stateBytes] = strides;
      const first = tensor.offset + shard * cut.headsPerShard * headBytes;
      const { storage } = tensor;
      const bytes = cut.headsPerShard * headBytes;
      // Head-major: a shard's heads lie together. Token-major: they lie together within each token.
      if (cut.layout === "LBHNC")
        return [checked({ storage, offset: first, strideBytes, bytes }, tensor, blockCount)];
      return Array.from({ length: tensor.shape[2] ?? 0 }, (_state, state) => {
        const offset = first + state * stateBytes;
        return checked({ storage, offset, strideBytes, bytes }, tensor, blockCount);
      });
    }),
  );
}

/** Bytes of one value: what a get must give and a put must take. */
export function valueBytes(segments: readonly { readonly bytes: number }[]): number {
  return segments.reduce((all, { bytes }) => all + bytes, 0);
}

/** The segments as the addon takes them. `regionOfStorage`: the registered region of each storage. */
export function segmentRules(
  segments: readonly StorageSegment[],
  regionOfStorage: readonly number[],
): SegmentRule[] {
  return segments.map(({ storage, offset, strideBytes, bytes }) => {
    const regionId = regionOfStorage[storage];
    if (regionId === undefined) throw new Error(`storage ${storage} is not registered`);
    return { regionId, offset, strideBytes, bytes };
  });
}

/** Kernels may cut a block in equal parts; the pool knows whole ones. */
function wholeBlocks(tensor: KvTensor, blockCount: number): KvTensor {
  const [parts = 0, ...shape] = tensor.shape;
  const [stride = 0, ...strideBytes] = tensor.strideBytes;
  if (parts === blockCount) return tensor;
  const ratio = parts / blockCount;
  if (!Number.isInteger(ratio)) refuse(tensor, `axis 0 is no multiple of ${blockCount} blocks`);
  return {
    ...tensor,
    shape: [blockCount, ratio, ...shape],
    strideBytes: [stride * ratio, stride, ...strideBytes],
  };
}

function tensorSegments(tensor: KvTensor, blockCount: number): StorageSegment[] {
  const { shape, strideBytes, elementBytes, storage, storageBytes, offset } = tensor;
  const stride = strideBytes[0] ?? 0;
  if (!isDense(shape.slice(1), strideBytes.slice(1), elementBytes)) {
    const headBytes = elementBytes * shape.slice(2).reduce((all, size) => all * size, 1);
    const head = isDense(shape.slice(2), strideBytes.slice(2), elementBytes);
    // vLLM takes a whole block's stride from every head here, which reads into other heads and past the storage's end.
    if (!head || headBytes !== stride) {
      throw new MooncakeKvError({
        code: "UNSUPPORTED",
        field: "kvMemory",
        value: { shape, strideBytes },
        problem: "a block's heads lie apart with something else between its states",
        remedy: "Use the layout LBHNC, LBNHC, LHBNC, BLHNC or BLNHC.",
      });
    }
    return Array.from({ length: shape[1] ?? 0 }, (_, index) => ({
      storage,
      offset: offset + index * (strideBytes[1] ?? 0),
      strideBytes: stride,
      bytes: stride,
    }));
  }
  const fills = stride * blockCount === storageBytes;
  return [{ storage, offset: fills ? 0 : offset, strideBytes: stride, bytes: stride }];
}

/** Whether the elements cover one gapless range, whatever the order of the axes. */
function isDense(
  shape: readonly number[],
  strideBytes: readonly number[],
  elementBytes: number,
): boolean {
  let expected = elementBytes;
  const axes = shape.map((size, axis) => ({ size, stride: strideBytes[axis] ?? 0 }));
  for (const { size, stride } of axes.sort((left, right) => left.stride - right.stride)) {
    if (size === 1) continue;
    if (stride !== expected) return false;
    expected *= size;
  }
  return true;
}

/** Strides of block, head and state of a view that is packed as the cut demands. */
function packedStrides(
  tensor: KvTensor,
  blockCount: number,
  cut: ShardCut,
): readonly [number, number, number] {
  const [blocks, heads = 0, states = 0, content = 0] = tensor.shape;
  const [block = 0, head = 0, state = 0, element] = tensor.strideBytes;
  if (tensor.shape.length !== 4 || blocks !== blockCount)
    refuse(tensor, `is no view of ${blockCount} blocks of heads, states and content`);
  if (heads !== cut.shards * cut.headsPerShard)
    refuse(tensor, `has ${heads} heads for ${cut.shards} shards of ${cut.headsPerShard}`);
  const contentBytes = content * tensor.elementBytes;
  const packed =
    cut.layout === "LBHNC"
      ? state === contentBytes && head === states * contentBytes
      : head === contentBytes && state === heads * contentBytes;
  if (element !== tensor.elementBytes || !packed) refuse(tensor, `is not packed as ${cut.layout}`);
  return [block, head, state];
}

function checked(segment: StorageSegment, tensor: KvTensor, blockCount: number): StorageSegment {
  const end = segment.offset + (blockCount - 1) * segment.strideBytes + segment.bytes;
  if (end > tensor.storageBytes)
    refuse(tensor, `its block ${blockCount - 1} ends at byte ${end} of ${tensor.storageBytes}`);
  return segment;
}

function refuse(tensor: KvTensor, problem: string): never {
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: "kvMemory",
    value: { shape: tensor.shape, strideBytes: tensor.strideBytes },
    problem,
    remedy: "Give views of whole blocks that agree with the KV-cache configuration.",
  });
}
