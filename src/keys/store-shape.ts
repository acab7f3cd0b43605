/**
 * The shape in which blocks lie in the pool. Normally the rank's own; a store tensor-parallel size asks for finer shards, so
 * that deployments of different tensor-parallel sizes share blocks. Where that cannot be, keys still get a namespace of their
 * own, so that they never meet differently shaped values.
 */
import type { KvCacheConfig } from "../config/kv-cache-config.ts";
import { leastCommonMultiple } from "../config/kv-cache-config.ts";

/** The settings `store_tp_size`, `enable_store_tp_lcm`, `prefill_tp_sizes`, `enable_cross_layers_blocks`, as written. */
export interface StoreTpRequest {
  readonly storeTpSize?: unknown;
  readonly enableStoreTpLcm?: unknown;
  readonly prefillTpSizes?: unknown;
  readonly crossLayersBlocks?: boolean;
}

export interface StoreShape {
  /** Shards of a whole block in the pool; null: the rank's own shape. */
  readonly tpSize: number | null;
  /** Follows the model's name in keys. */
  readonly namespace: string;
}

const RANK_LOCAL: StoreShape = { tpSize: null, namespace: "" };

/** vLLM's `_select_store_layout`. */
export function selectStoreShape(
  topology: Pick<KvCacheConfig, "layout" | "heads" | "tp" | "pp" | "pcp" | "dcp" | "groups">,
  request: StoreTpRequest | null,
): StoreShape {
  if (request === null) return RANK_LOCAL;
  if (request.enableStoreTpLcm !== true && (request.storeTpSize ?? null) === null)
    return RANK_LOCAL;
  const { tp, pp, heads, layout } = topology;
  const wanted = requestedSize(request);
  if (
    wanted !== null &&
    wanted >= tp.size &&
    wanted % tp.size === 0 &&
    canShard(topology, request)
  ) {
    if (heads.kvHeads % wanted === 0) {
      const format = `tp_shared_${layout.toLowerCase()}`;
      return {
        tpSize: wanted,
        namespace: `@store_tp:${wanted}@store_pp:${pp.size}@store_format:${format}`,
      };
    }
    if (heads.kvHeads === 1) {
      return { tpSize: null, namespace: `@store_pp:${pp.size}@store_format:tp_shared_mqa` };
    }
  }
  const format = `rank_local_tp${tp.size}_layout_${layout}`;
  return { tpSize: null, namespace: `@store_pp:${pp.size}@store_format:${format}` };
}

/** Only layouts whose heads are contiguous per layer and block can be cut by head. */
function canShard(
  topology: Pick<KvCacheConfig, "layout" | "pcp" | "dcp" | "groups">,
  request: StoreTpRequest,
): boolean {
  return (
    (topology.layout === "LBHNC" || topology.layout === "LBNHC") &&
    topology.pcp.size === 1 &&
    topology.dcp.size === 1 &&
    topology.groups.length === 1 &&
    topology.groups[0]?.kind === "full" &&
    request.crossLayersBlocks !== true
  );
}

function requestedSize(request: StoreTpRequest): number | null {
  if (request.enableStoreTpLcm !== true) return positiveInteger(request.storeTpSize);
  const sizes = request.prefillTpSizes;
  if (!Array.isArray(sizes) || sizes.length === 0) return null;
  let all = 1;
  for (const size of sizes) {
    const checked = positiveInteger(size);
    if (checked === null) return null;
    all = leastCommonMultiple(all, checked);
  }
  return all;
}

function positiveInteger(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : null;
}
