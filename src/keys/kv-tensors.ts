/**
 * How vLLM lays the KV cache of one rank out: one storage for all layers of a model with one group, in the order of the layout's
 * axes; for hybrid models one storage for each layer of the largest group, over which all groups lay their pages.
 */
import { blockShape, DTYPE_BYTES, hasPages, layerBytes } from "../config/kv-cache-config.ts";
import type { KvCacheConfig, KvCacheGroup } from "../config/kv-cache-config.ts";
import { shardSegments, rankSegments } from "./segments.ts";
import type { KvTensor, StorageSegment } from "./segments.ts";

export type KvTensorConfig = Pick<
  KvCacheConfig,
  "dtype" | "layout" | "groups" | "heads" | "tp" | "blockCount" | "stateBytes"
>;

/** Per group, the views of its layers. */
export function kvTensors(config: KvTensorConfig): KvTensor[][] {
  return hasPages(config)
    ? pagedTensors(config)
    : config.groups.map((group) => layeredTensors(config, group));
}

/**
 * Per group and per value of a block (one, or one a shard of a store that is cut finer), its segments. `storeTpSize`: shards of
 * a whole block in the pool (`StoreShape.tpSize`). Groups of hybrid models share all storages, so every value holds all of them.
 */
export function blockSegments(
  config: KvTensorConfig,
  storeTpSize: number | null = null,
  tensors: readonly (readonly KvTensor[])[] = kvTensors(config),
): StorageSegment[][][] {
  const { layout, blockCount, heads, tp } = config;
  if (storeTpSize !== null && (layout === "LBHNC" || layout === "LBNHC")) {
    const shards = storeTpSize / tp.size;
    const headsPerShard = heads.kvHeads / storeTpSize;
    return config.groups.map(() =>
      shardSegments(tensors.flat(), blockCount, { layout, shards, headsPerShard }),
    );
  }
  const segments = rankSegments(tensors.flat(), blockCount);
  return config.groups.map(() => [segments]);
}

function layeredTensors(config: KvTensorConfig, group: KvCacheGroup): KvTensor[] {
  const elementBytes = DTYPE_BYTES[config.dtype];
  const [heads, states, content] = blockShape(config, group);
  const sizes = { L: group.layers, B: config.blockCount, H: heads, N: states, C: content };
  const strides = { L: 0, B: 0, H: 0, N: 0, C: 0 };
  let stride = elementBytes;
  for (const axis of axesOf(config.layout).toReversed()) {
    strides[axis] = stride;
    stride *= sizes[axis];
  }
  return Array.from({ length: group.layers }, (_, layer) => ({
    shape: [sizes.B, sizes.H, sizes.N, sizes.C],
    strideBytes: [strides.B, strides.H, strides.N, strides.C],
    elementBytes,
    storage: 0,
    storageBytes: stride,
    offset: layer * strides.L,
  }));
}

function axesOf(layout: KvCacheConfig["layout"]): ("L" | "B" | "H" | "N" | "C")[] {
  return layout.split("") as ("L" | "B" | "H" | "N" | "C")[];
}

/** Pages of all groups are as large as the largest group's. */
function pagedTensors(config: KvTensorConfig): KvTensor[][] {
  const { blockCount } = config;
  const pageBytes = Math.max(...config.groups.map((group) => layerBytes(config, group)));
  return config.groups.map((group) =>
    Array.from({ length: group.layers }, (_, layer) => ({
      shape: [blockCount, pageBytes],
      strideBytes: [pageBytes, 1],
      elementBytes: 1,
      storage: layer,
      storageBytes: pageBytes * blockCount,
      offset: 0,
    })),
  );
}
