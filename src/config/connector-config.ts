/** The connector's settings as the runtime uses them: complete, frozen plain data that may be sent to worker threads. */
import type { StoreConfig } from "./store-config.ts";

export type KvRole = "kv_producer" | "kv_consumer" | "kv_both";
export const KV_ROLES: readonly KvRole[] = ["kv_producer", "kv_consumer", "kv_both"];

export type EngineKind = "local" | "mooncake";
export const ENGINE_KINDS: readonly EngineKind[] = ["local", "mooncake"];

/** Where the engine runs. child: in a process of its own, whose crash costs the calls that were in it and nothing else. */
export type EngineProcess = "in_process" | "child";
export const ENGINE_PROCESSES: readonly EngineProcess[] = ["in_process", "child"];

/** What happens to a request whose blocks did not arrive: computed again from the first bad block, or ended. */
export type LoadFailurePolicy = "recompute" | "fail";
export const LOAD_FAILURE_POLICIES: readonly LoadFailurePolicy[] = ["recompute", "fail"];

/** What loads from a Mooncake pool do about checksums beside its values: nothing, use what has none, or use only what has one. */
export type PoolVerify = "off" | "when_present" | "require";
export const POOL_VERIFY: readonly PoolVerify[] = ["off", "when_present", "require"];
export const POOL_VERIFY_DEFAULT: PoolVerify = "off";

/** Memory of the local engine. Runtimes of one process that name the same pool share it. */
export interface LocalPoolConfig {
  readonly poolName: string;
  readonly bytesMax: number;
  readonly ioThreads: number;
  /** Values are checksummed when they are saved and verified when they are loaded: a flipped bit is a failed load. */
  readonly verifyChecksums: boolean;
}

/** The Mooncake pool that this process joins. */
export interface MooncakePoolConfig {
  readonly store: StoreConfig;
  /** Name under which this process registers; null: its address on the way out of this host. */
  readonly requesterLocalHostname: string | null;
  /** MOONCAKE_PYTHON; null: searched for. */
  readonly python: string | null;
  /** PATH, to search for python3. */
  readonly searchPath: string;
}

export type LookupRpcRole = "server" | "client";
export const LOOKUP_RPC_ROLES: readonly LookupRpcRole[] = ["server", "client"];

/** The buffer in which the owner of a value on disk stages it; see `stagingSettings`. */
export interface StagingSettings {
  readonly bufferBytes: number;
  /** Share of the buffer that one read of several values may fill, in (0, 1]. */
  readonly usableRatio: number;
  /** Reads in flight at a time, at least 1: each may fill its share. */
  readonly readsMax: number;
}

/** `store_tp_size`, `enable_store_tp_lcm` and `prefill_tp_sizes` as they are written. */
export interface StoreTpSettings {
  readonly storeTpSize: unknown;
  readonly enableStoreTpLcm: unknown;
  readonly prefillTpSizes: unknown;
}

export interface ConnectorConfig {
  readonly engine: EngineKind;
  readonly engineProcess: EngineProcess;
  readonly role: KvRole;
  /** null: the runtime draws one. */
  readonly engineId: string | null;
  readonly loadFailurePolicy: LoadFailurePolicy;
  /** Loads overlap with compute. */
  readonly loadAsync: boolean;
  /** A lookup never blocks a scheduling step; the request is parked until it ends. */
  readonly lookupAsync: boolean;
  /** false: no lookup at all, every prompt is a miss. */
  readonly enableLookup: boolean;
  /** Whether this instance saves: producers, both, and consumers with save_decode_cache. */
  readonly canSave: boolean;
  /** A consumer too saves, and tokens past the prompt are saved. */
  readonly saveDecodeCache: boolean;
  /** Gives memory to the pool but neither looks up nor saves. */
  readonly capacityOnly: boolean;
  /** Managed memory has the block outermost: one segment a block. */
  readonly enableCrossLayersBlocks: boolean;
  /** Blocks are cut finer in the pool than on this rank, so that other tensor-parallel sizes share them; null: not asked for. */
  readonly storeTp: StoreTpSettings | null;
  /** Goes into the lookup socket's name as it is written. */
  readonly lookupRpcPort: string;
  /** server: answers lookups of other processes; client: another process answers this one's; null: no socket. */
  readonly lookupRpcRole: LookupRpcRole | null;
  /** Folder of the lookup socket; null: the temporary folder. */
  readonly lookupRpcFolder: string | null;
  /** Namespace in front of every key; empty: keys are byte-identical to unprefixed ones. */
  readonly cachePrefix: string;
  /** `host:port` of the owner segment that takes this rank's replicas; null: none. */
  readonly preferredSegment: string | null;
  /** Puts tell Mooncake which values belong to one chunk, so that it evicts them together. */
  readonly enableGroupSemantics: boolean;
  /** Deadline of a lookup, and the longest a synchronous one holds the step. */
  readonly lookupTimeoutMs: number;
  readonly loadTimeoutMs: number;
  readonly saveTimeoutMs: number;
  readonly shutdownTimeoutMs: number;
  /** How long a start waits for the engine; requests are computed until it is open. 0: not at all. */
  readonly engineStartTimeoutMs: number;
  /** Of the engine mooncake; the local one has checksums of its own (`local.verifyChecksums`). */
  readonly poolVerify: PoolVerify;
  /** Hits shorter than this are computed instead of loaded. */
  readonly minLoadTokens: number;
  /** What loads keep to where the pool has a disk tier; null: it has none. */
  readonly staging: StagingSettings | null;
  /** Logs of each batch of a load how much came from memory and from disk. */
  readonly storeTierLog: boolean;
  readonly local: LocalPoolConfig;
  /** null: another engine. */
  readonly mooncake: MooncakePoolConfig | null;
}
