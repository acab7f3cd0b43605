/**
 * Pool keys, byte-identical to vLLM's:
 * `[cache_prefix@]model[store namespace]@tp_rank:R@pcpC@dcpD@pp_rank:P@group:G@<hex of the block hash>`.
 *
 * All but the hash is a prefix that is formed once per group and rank; the addon appends the hash.
 */
import type { ConnectorConfig } from "../config/connector-config.ts";
import type { KvCacheConfig } from "../config/kv-cache-config.ts";
import { selectStoreShape } from "./store-shape.ts";
import type { StoreShape, StoreTpRequest } from "./store-shape.ts";

/** What of a KV cache goes into its keys. A `KvCacheConfig` is one. */
export type KeyTopology = Pick<
  KvCacheConfig,
  "modelName" | "layout" | "heads" | "tp" | "pp" | "pcp" | "dcp" | "groups"
>;

export interface KeyNamespace {
  /** Text in front of every key; empty for none. */
  readonly cachePrefix: string;
  readonly storeTp?: StoreTpRequest | null;
}

export interface GroupKeyPrefixes {
  /** Tensor-parallel ranks that hold identical bytes of this group. */
  readonly replication: number;
  /** Of the ranks with identical bytes, this one puts the chunks with `chunk % putStep === putPhase`. */
  readonly putStep: number;
  readonly putPhase: number;
  /** Prefixes under which this rank puts and gets a block: one, or one per shard of a store that is cut finer. */
  readonly own: readonly string[];
  /** Prefixes that must all exist for a block to count as present, in vLLM's order. Holds every `own` one of all ranks. */
  readonly lookup: readonly string[];
}

export interface PoolKeyPrefixes {
  /** The model's name in keys. */
  readonly model: string;
  readonly groups: readonly GroupKeyPrefixes[];
}

/** The namespace that a connector's settings ask for. */
export function keyNamespaceOf(
  connector: Pick<ConnectorConfig, "cachePrefix" | "storeTp" | "enableCrossLayersBlocks">,
): KeyNamespace {
  const { cachePrefix, storeTp, enableCrossLayersBlocks: crossLayersBlocks } = connector;
  return { cachePrefix, storeTp: storeTp === null ? null : { ...storeTp, crossLayersBlocks } };
}

/** Prefixes of the rank that `topology` describes (its tp, pp, pcp, dcp ranks). Pure; called once per rank at start. */
export function poolKeyPrefixes(topology: KeyTopology, namespace: KeyNamespace): PoolKeyPrefixes {
  const model = modelNameInKeys(topology.modelName);
  const shape = selectStoreShape(topology, namespace.storeTp ?? null);
  const stem =
    (namespace.cachePrefix === "" ? "" : `${namespace.cachePrefix}@`) + model + shape.namespace;
  const groups = topology.groups.map((group, index): GroupKeyPrefixes => {
    const replication = tpReplication(topology, group.kind);
    return Object.freeze({
      replication,
      putStep: replication,
      putPhase: (topology.tp.rank + index) % replication,
      own: Object.freeze(ownPrefixes(topology, stem, index, shape, replication)),
      lookup: Object.freeze(lookupPrefixes(topology, stem, index, shape, replication)),
    });
  });
  return Object.freeze({ model, groups: Object.freeze(groups) });
}

/** The key of one block. Tests and tools only: on hot paths the addon forms keys. */
export function poolKey(prefix: string, hex: string): string {
  return `${prefix}@${hex}`;
}

/** Last path component of the model name, trailing slashes aside. */
export function modelNameInKeys(modelName: string): string {
  const trimmed = modelName.replace(/\/+$/, "");
  return trimmed.slice(trimmed.lastIndexOf("/") + 1);
}

/**
 * The pipeline stage as vLLM writes it into keys: its formula takes the world rank for one without prefill-context ranks, so
 * with both it is not the true stage (configurations refuse that; the formula is kept so that keys stay equal).
 */
export function ppRankInKeys(topology: Pick<KvCacheConfig, "pp" | "pcp">): number {
  return (topology.pp.rank * topology.pcp.size + topology.pcp.rank) % topology.pp.size;
}

/** How many tensor-parallel ranks hold the same bytes: all for MLA, several when there are fewer KV heads than ranks. */
export function tpReplication(
  topology: Pick<KvCacheConfig, "tp" | "dcp" | "heads">,
  kind: KvCacheConfig["groups"][number]["kind"],
): number {
  if (topology.dcp.size > 1 || kind === "mamba") return 1;
  if (kind === "mla" || kind === "swa_mla") return topology.tp.size;
  return Math.max(1, Math.floor(topology.tp.size / topology.heads.kvHeads));
}

/** Where a rank starts in a list of `count` keys to get, so that ranks do not all ask the same owner first. 0 for none. */
export function getRotation(tpRank: number, count: number): number {
  return count === 0 ? 0 : tpRank % count;
}

function ownPrefixes(
  topology: KeyTopology,
  stem: string,
  group: number,
  shape: StoreShape,
  replication: number,
): string[] {
  const pcp = topology.pcp.size > 1 ? topology.pcp.rank : 0;
  const dcp = topology.dcp.size > 1 ? topology.dcp.rank : 0;
  const pp = ppRankInKeys(topology);
  if (shape.tpSize === null) {
    return [prefixText(stem, Math.floor(topology.tp.rank / replication), pcp, dcp, pp, group)];
  }
  const shards = shape.tpSize / topology.tp.size;
  const first = topology.tp.rank * shards;
  return Array.from({ length: shards }, (_, shard) =>
    prefixText(stem, first + shard, pcp, dcp, pp, group),
  );
}

function lookupPrefixes(
  topology: KeyTopology,
  stem: string,
  group: number,
  shape: StoreShape,
  replication: number,
): string[] {
  const { tp, pp, pcp, dcp } = topology;
  const ranks = shape.tpSize ?? (dcp.size > 1 ? tp.size : Math.floor(tp.size / replication));
  const prefixes: string[] = [];
  for (let pcpRank = 0; pcpRank < pcp.size; pcpRank++) {
    for (let tpRank = 0; tpRank < ranks; tpRank++) {
      for (let ppRank = 0; ppRank < pp.size; ppRank++) {
        const dcpRank = dcp.size > 1 ? tpRank % dcp.size : 0;
        prefixes.push(prefixText(stem, tpRank, pcpRank, dcpRank, ppRank, group));
      }
    }
  }
  return prefixes;
}

function prefixText(
  stem: string,
  tp: number,
  pcp: number,
  dcp: number,
  pp: number,
  group: number,
): string {
  return `${stem}@tp_rank:${tp}@pcp${pcp}@dcp${dcp}@pp_rank:${pp}@group:${group}`;
}

/**
 * What a put of a key tells Mooncake with `enable_group_semantics`: values of one chunk live and die together, whosever they are.
 * Empty, which is no group, for a key that is no block's. Twin of native/engines/mooncake/lifecycle_group.cc, for tests and tools.
 */
export function lifecycleGroup(key: string): string {
  const hash = key.lastIndexOf("@");
  const ranks = key.lastIndexOf("@tp_rank:");
  return ranks < 0 || ranks === hash
    ? ""
    : `vllm-mooncake-store:${key.slice(0, ranks)}${key.slice(hash)}`;
}
