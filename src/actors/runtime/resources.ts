import { channelWords, type ChannelShape } from "../../blocks/layout.ts";
import { createTableBuffers, type TableDimensions } from "../../blocks/tables.ts";
import type { ConnectorConfig } from "../../config/connector-config.ts";
import { HASH_ALGORITHMS } from "../../config/kv-cache-config.ts";
import type { KvCacheConfig } from "../../config/kv-cache-config.ts";
import { formatWarning } from "../../config/warnings.ts";
import { createEventRing } from "../../events/event-ring.ts";
import { hitRulesOf } from "../../keys/coordinator/rules-of.ts";
import { noneHash } from "../../keys/none-hash.ts";
import { keyNamespaceOf, poolKeyPrefixes } from "../../keys/pool-keys.ts";
import type { NativeBinding } from "../../native/binding.ts";
import { keySpaceOptions, planKeySpace, valuesPerBlock } from "../../store/key-spaces.ts";
import type { ValueSegments, WorkerKeySpace } from "../../store/key-spaces.ts";
import { engineHasLog, openEngine } from "../../store/open-engine.ts";
import { createCounterBuffer } from "../../trace/counters.ts";
import { createTraceRing } from "../../trace/ring.ts";
import { foreignDimensions } from "../lookup/foreign/foreign-lookups.ts";
import { lookupSocketPath } from "../hosts/lookup-rpc/socket-path.ts";
import { Mailbox, mailboxWords } from "../mailbox/mailbox.ts";
import type { Log } from "../step.ts";
import { ACTOR_COUNT, ACTOR_LOADER, ACTOR_LOOKUP, ACTOR_SAVER } from "../messages.ts";
import {
  CONTROL_WORDS,
  mailboxCapacities,
  type ChannelPlan,
  type LookupRpcPlan,
  type RuntimePlan,
} from "../plan.ts";

/** Records of one trace ring: a quarter second of the busiest lane, drained every 20 ms. */
const TRACE_RING_RECORDS = 16_384;

/** Words of one ring of KV events: some 26,000 blocks of 16 tokens. Emptied every scheduling step, or every few milliseconds. */
const EVENT_RING_WORDS = 2 ** 20;

/** Batches in flight times keys a batch: what one actor may have in the engine. */
const CHANNEL_SHAPES: { readonly [actor: number]: ChannelShape } = {
  [ACTOR_LOOKUP]: { batchSlots: 64, keysPerBatchMax: 2048 },
  [ACTOR_LOADER]: { batchSlots: 16, keysPerBatchMax: 1024 },
  [ACTOR_SAVER]: { batchSlots: 16, keysPerBatchMax: 1024 },
};

const FOREIGN_CHANNEL_SHAPE: ChannelShape = { batchSlots: 16, keysPerBatchMax: 2048 };

export interface ResourceOptions {
  readonly native: NativeBinding;
  readonly dimensions: TableDimensions;
  readonly kvCache: KvCacheConfig;
  readonly connector: ConnectorConfig;
  /** PYTHONHASHSEED, null when unset. */
  readonly hashSeed: string | null;
  /** For NONE_HASH, where the algorithm draws it. */
  readonly randomBytes: (count: number) => Uint8Array;
  /** Segments of one block, per group and value (memory that is already a region of the addon). */
  readonly segments: ValueSegments;
  readonly trace: boolean;
  /** Which actors make KV events; absent: none. */
  readonly eventActors?: readonly number[];
  readonly logLevel: string;
  readonly log: Pick<Log, "warn">;
}

/**
 * Shared memory and native handles of one runtime, made and released by one thread (which must outlive the actor threads:
 * the addon's references to the shared memory live in its isolate).
 */
export class RuntimeResources {
  readonly plan: RuntimePlan;
  readonly engineId: number;
  /** What the first block's hash goes on from. */
  readonly noneHash: Uint8Array;
  /** Woken when the engine's state changes. */
  readonly engineWakeId: number;
  readonly engineHasLog: boolean;
  /** Prefixes of the worker side's keys, by their numbers. */
  keyPrefixes: readonly string[] = [];
  readonly #native: NativeBinding;
  readonly #channelIds: number[] = [];
  /** Give back what was registered, in the order of registration. */
  readonly #releases: (() => void)[] = [];

  /** Throws what the addon refuses (a pool that is open with another size, segments that overlap); nothing stays behind. */
  constructor(options: ResourceOptions) {
    this.#native = options.native;
    const { hashSeed, kvCache, randomBytes } = options;
    this.noneHash = noneHash(hashSeed, kvCache.hashAlgorithm, randomBytes);
    this.engineWakeId = options.native.wakeReserve();
    this.engineHasLog = engineHasLog(options.connector);
    this.engineId = openEngine(options.native, options.connector, this.engineWakeId, (warning) =>
      options.log.warn({}, formatWarning(warning)),
    );
    try {
      this.plan = this.#plan(options);
    } catch (error) {
      this.release(0);
      throw error;
    }
  }

  #plan(options: ResourceOptions): RuntimePlan {
    const { native, dimensions } = options;
    const tables = createTableBuffers(dimensions);
    const hashesSharedId = this.#share(tables.hashPages);
    const hasherId = native.hasherRegister({
      algorithm: options.kvCache.hashAlgorithm,
      blockSize: dimensions.hashBlockSize,
      lookaheadTokens: dimensions.hashLookaheadTokens,
      noneHash: this.noneHash,
      tokensSharedId: this.#share(tables.tokenPages),
      hashesSharedId,
    });
    this.#releases.push(() => native.hasherRelease(hasherId));
    const worker = this.#worker(options, hashesSharedId);
    const wakeIds = Array.from({ length: ACTOR_COUNT }, () => native.wakeReserve());
    const channels = this.#channels(wakeIds);
    return {
      tables,
      mailboxes: mailboxCapacities(
        dimensions.requestSlots,
        dimensions.jobSlots,
        dimensions.stepSequencesMax,
        1, // One worker side a process so far: see `workers` below.
      ).map(createMailbox),
      wakeIds,
      control: new SharedArrayBuffer(CONTROL_WORDS * 4),
      channels,
      hasherId,
      workers: [worker],
      rules: hitRulesOf(options.kvCache, valuesPerBlock(worker)),
      lookupRpc: this.#lookupRpc(options),
      originNanoseconds: native.monotonicNanoseconds(),
      traceRings: options.trace
        ? Array.from({ length: ACTOR_COUNT }, () => createTraceRing(TRACE_RING_RECORDS))
        : null,
      eventRings: eventRings(options.eventActors),
      counters: createCounterBuffer(ACTOR_COUNT),
      logLevel: options.logLevel,
    };
  }

  /** Closes channels and engine, at most `timeoutMs`; returns how many batches could not be waited for. */
  release(timeoutMs: number): number {
    for (const channelId of this.#channelIds) this.#native.channelClose(channelId);
    const inFlight = this.#native.engineClose(this.engineId, timeoutMs);
    this.#releaseRegistered();
    return inFlight;
  }

  #releaseRegistered(): void {
    for (const release of this.#releases.toReversed()) release();
  }

  #share(buffer: SharedArrayBuffer): number {
    const sharedId = this.#native.sharedRegister(new Uint8Array(buffer));
    this.#releases.push(() => this.#native.sharedRelease(sharedId));
    return sharedId;
  }

  #worker(options: ResourceOptions, hashesSharedId: number): WorkerKeySpace {
    const { kvCache, connector, segments } = options;
    const { groups } = poolKeyPrefixes(kvCache, keyNamespaceOf(connector));
    const plan = planKeySpace({ tensorParallelRank: kvCache.tp.rank, groups, segments });
    const keySpaceId = this.#native.keySpaceRegister(
      keySpaceOptions(
        plan,
        { hashesSharedId, hashBytes: HASH_ALGORITHMS[kvCache.hashAlgorithm].digestBytes },
        kvCache.blockCount,
      ),
    );
    this.keyPrefixes = plan.prefixes;
    this.#native.engineUseKeySpace(this.engineId, keySpaceId);
    this.#releases.push(() => this.#native.keySpaceRelease(keySpaceId));
    return { ...plan, keySpaceId };
  }

  #channels(wakeIds: readonly number[]): { [actor: number]: ChannelPlan } {
    const channels: { [actor: number]: ChannelPlan } = {};
    for (const [name, shape] of Object.entries(CHANNEL_SHAPES)) {
      const actor = Number(name);
      channels[actor] = this.#channel(shape, wakeIds[actor]!);
    }
    return channels;
  }

  #channel(shape: ChannelShape, wakeId: number): ChannelPlan {
    const words = new SharedArrayBuffer(channelWords(shape) * 4);
    const sharedId = this.#share(words);
    const channelId = this.#native.channelOpen({
      engineId: this.engineId,
      sharedId,
      wordOffset: 0,
      ...shape,
      wakeId,
    });
    this.#channelIds.push(channelId);
    return { channelId, words, shape };
  }

  /** Other processes' questions get tables, keys and a channel of their own: they never take room from requests. */
  #lookupRpc(options: ResourceOptions): LookupRpcPlan | null {
    const { connector, kvCache, dimensions, native } = options;
    const path = lookupSocketPath(connector, kvCache);
    if (path === null) return null;
    if (connector.lookupRpcRole === "client") return { role: "client", path };
    const tables = createTableBuffers(foreignDimensions(dimensions));
    const worker = this.#worker(options, this.#share(tables.hashPages));
    const wakeId = native.wakeReserve();
    const channel = this.#channel(FOREIGN_CHANNEL_SHAPE, wakeId);
    return { role: "server", path, tables, worker, channel, wakeId };
  }
}

function eventRings(actors: readonly number[] | undefined): RuntimePlan["eventRings"] {
  if (actors === undefined) return null;
  return Object.fromEntries(actors.map((actor) => [actor, createEventRing(EVENT_RING_WORDS)]));
}

function createMailbox(capacity: number): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(mailboxWords(capacity) * 4);
  Mailbox.initialise(new Int32Array(memory));
  return memory;
}
