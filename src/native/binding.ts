import type { EngineCallReply, EngineCallRequest } from "./engine-call.ts";

export type { EngineCallReply, EngineCallRequest } from "./engine-call.ts";

/**
 * The addon's interface: everything that crosses from JavaScript into C++.
 *
 * Control structures are registered once, by the thread that makes them and outlives all workers (the addon keeps a
 * reference to the view there); worker threads refer to them by id. Ids are process-wide. Unless a function says otherwise
 * it may be called from any thread, does not block, and throws a MooncakeKvError-shaped Error ({code, field, remedy}) on bad
 * arguments.
 */
export interface NativeBinding {
  /** Constants of native/core/layout.h by the names used in src/blocks/layout.ts. */
  layoutConstants(): Record<string, number>;

  /** Registers the bytes of a view over a SharedArrayBuffer. The addon holds the view until `sharedRelease`. */
  sharedRegister(view: Uint8Array): number;
  sharedRelease(sharedId: number): void;

  /** A memfd region, zeroed, page-aligned, MAP_SHARED, transparent huge pages advised. */
  regionCreate(bytes: number): number;
  /** Pins a user's memory (a view over a SharedArrayBuffer or ArrayBuffer); held until `regionRelease`. */
  regionPin(view: Uint8Array): number;
  /** One external ArrayBuffer over the region's bytes for the calling isolate. Keeps the region alive while reachable. */
  regionView(regionId: number): ArrayBuffer;
  regionInfo(regionId: number): { kind: "memfd" | "host"; bytes: number; fileDescriptor: number };
  /**
   * Drops the creator's hold; the memory goes when no view, key space or batch uses it. A user's memory is read and written by nobody
   * once this has returned: it waits for copies under way, and batches that are left end with CLOSED.
   */
  regionRelease(regionId: number): void;

  /** A process-wide number for an actor's wake handle, free until `wakeOpen`. */
  wakeReserve(): number;
  /** Opens the uv_async handle of `wakeId` on the calling thread's loop. Closed by `wakeClose` or the thread's end. */
  wakeOpen(wakeId: number, callback: () => void, keepLoopAlive: boolean): void;
  wakeClose(wakeId: number): void;
  /** Wakes the loop that opened `wakeId`; false when nobody has it open. Never blocks. */
  wake(wakeId: number): boolean;

  /** CPU time of the calling thread, and monotonic time, in nanoseconds. */
  threadCpuNanoseconds(): number;
  monotonicNanoseconds(): number;

  /**
   * flock on an open file: exclusive or shared, without waiting. False: others hold it. Held until every copy of the descriptor,
   * inherited ones too, is closed. Throws UNSUPPORTED where the file system has no locks.
   */
  fileLock(fileDescriptor: number, shared: boolean): boolean;

  /** Registers token and hash arenas for hashing; see `hashBlocks`. */
  hasherRegister(options: HasherOptions): number;
  hasherRelease(hasherId: number): void;
  /**
   * Hashes blocks [fromBlock, toBlock) of a request: reads tokens through the chain at `tokenPage`, writes digests through
   * the chain at `hashPage`; block 0's parent is the NONE_HASH. `extrasPage` (or -1) is a chain in the token arena that
   * holds, for each block from 0 on, one word byteLength and then that many bytes (padded to words) of extra element, encoded
   * as the algorithm wants it; byteLength 0 means null. Look-ahead tokens are no part of it: they are read from the token row,
   * so they must be there (`hashableBlocks`). A digest of 16 bytes fills the first half of its place in the hash arena.
   * Returns the number of blocks hashed. Synchronous; about 0.15 us a block of 16.
   */
  hashBlocks(
    hasherId: number,
    tokenPage: number,
    hashPage: number,
    extrasPage: number,
    fromBlock: number,
    toBlock: number,
  ): number;

  /** Registers how keys and addresses are formed from (group, prefix, block, hash row). */
  keySpaceRegister(options: KeySpaceOptions): number;
  keySpaceRelease(keySpaceId: number): void;
  /** The key text of one entry, for tests, tools and traces. */
  keyOf(keySpaceId: number, prefixIndex: number, hashRow: number): string;

  /**
   * Opens an engine. Runtimes of one process that name the same `poolName` share its memory (reference-counted). The local engine
   * is open when this returns; others open on threads of their own, see `engineState`. Throws what is wrong with the options.
   */
  engineOpen(options: EngineOptions & EngineWakeOptions): number;
  /** Names KV memory that batches are going to use, so that it is registered before the engine is open rather than by the first. */
  engineUseKeySpace(engineId: number, keySpaceId: number): void;
  /** After a change the wake handle `stateWakeId` of engineOpen is woken; several changes may share one wake. */
  engineState(engineId: number): EngineStatus;
  /**
   * Waits at most `timeoutMs` for batches in flight and for the engine to close; returns how many batches are still in flight (0:
   * closed for good). Those keep all memory that they use until they return; nothing else waits for them.
   */
  engineClose(engineId: number, timeoutMs: number): number;
  engineStatistics(engineId: number): EngineStatistics;
  /**
   * Queues a call on single keys or the pool as a whole; `callback` gets the reply once, on this thread's loop, unless the thread
   * ends first. A call that hangs is never answered and does not keep the process: `callEngine` of store/ adds the time limit.
   */
  engineCall(
    engineId: number,
    request: EngineCallRequest,
    callback: (reply: EngineCallReply) => void,
  ): void;
  /** The next three are for the local engine, whose calls never hang: they answer at once. Others throw UNSUPPORTED. */
  /** Test seam: flips one bit of a stored value; false when the key is absent. */
  engineCorrupt(engineId: number, key: string, byteOffset: number): boolean;
  /** Keys that start with `prefix` ("" = all), at most `limit`. */
  engineKeys(engineId: number, prefix: string, limit: number): string[];
  /** Removes keys that start with `prefix` and are not being read or written; returns how many. */
  engineRemovePrefix(engineId: number, prefix: string): number;

  /** Wakes `wakeId` when the first line of Mooncake's log waits; -1: nobody. One taker a process. */
  wheelLogWake(wakeId: number): void;
  /** Takes the oldest lines of Mooncake's log (glog), of which at most 1,024 wait; a place that writes many is cut to 5 a second. */
  wheelLogTake(linesMax: number): WheelLogLine[];
  /**
   * Called as the main thread's JavaScript ends: stores of the wheel that are still open are closed before the wheel's own exit handlers
   * run, within 4 s, or the process ends without those, with its exit code.
   */
  wheelHookExit(): void;

  /** Opens a channel in registered control memory (layout.ts, "Engine channel"); completions wake `wakeId`. */
  channelOpen(options: ChannelOptions): number;
  /** Stops taking batches; returns how many are in flight. The memory stays in use until they are done. */
  channelClose(channelId: number): number;
  /** Hands batch slot `slot` to the engine. Never blocks. The batch's words must be filled, its state SUBMITTED. */
  channelSubmit(channelId: number, slot: number): void;
}

export interface WheelLogLine {
  /** 0 info, 1 warning, 2 error, 3 fatal: the process ends after it. */
  readonly severity: number;
  /** "file:line" of Mooncake's sources. */
  readonly source: string;
  readonly text: string;
}

export interface HasherOptions {
  readonly algorithm: "sha256" | "sha256_cbor" | "xxhash" | "xxhash_cbor";
  readonly blockSize: number;
  /** Tokens after a block that its hash covers too, at most 1024; default 0. */
  readonly lookaheadTokens?: number;
  /** As long as a digest; of the xxhash algorithms also the 32 bytes that are drawn when there is no seed. */
  readonly noneHash: Uint8Array;
  readonly tokensSharedId: number;
  readonly hashesSharedId: number;
}

export interface SegmentRule {
  readonly regionId: number;
  /** Address of block b's segment = region start + offset + b * strideBytes. */
  readonly offset: number;
  readonly strideBytes: number;
  readonly bytes: number;
}

export interface KeySpaceOptions {
  readonly hashesSharedId: number;
  /** Bytes of a digest: 32, or 16 for the xxhash algorithms. */
  readonly hashBytes: number;
  /** A key is prefix + "@" + hex of the whole digest. */
  readonly prefixes: readonly string[];
  /** Per group, the segments of one block in value order: a value is their plain concatenation. */
  readonly groups: readonly (readonly SegmentRule[])[];
  /** Number of blocks, to refuse block ids out of range. */
  readonly blockCount: number;
}

/** One member a kind of engine: each names its own options. */
export type EngineOptions = LocalEngineOptions | MooncakeEngineOptions | ChildEngineOptions;

export interface EngineWakeOptions {
  /** Wake handle for changes of the engine's state. */
  readonly stateWakeId?: number;
}

/** A bounded pool in the memory of this process. */
export interface LocalEngineOptions {
  readonly kind: "local";
  readonly poolName: string;
  readonly bytesMax: number;
  readonly ioThreads: number;
  /** Checksum every value at put and verify it at get: a mismatch gives CHECKSUM_MISMATCH and drops the value. */
  readonly verifyChecksums: boolean;
}

/** I/O threads of a class of operations: calls that hang in one class never stop another. */
export interface EngineLanes {
  readonly existsThreads: number;
  readonly getThreads: number;
  readonly putThreads: number;
}

/** `pool_verify`. */
export type PoolVerify = "off" | "when_present" | "require";

/** Mooncake's store out of its Python wheel, in this process. "" and 0: not given, the engine's own default. */
export interface MooncakeEngineOptions extends EngineLanes {
  readonly kind: "mooncake";
  /** The interpreter whose packages hold the wheel, and the library that it is made of. */
  readonly pythonExecutable: string;
  readonly pythonLibrary: string;
  readonly localHostname: string;
  readonly metadataServer: string;
  /** Memory that this process gives to the pool; 0: none. */
  readonly globalSegmentBytes: number;
  readonly localBufferBytes: number;
  readonly protocol: string;
  readonly deviceName: string;
  /** `host:port` of the master. */
  readonly masterServerAddress: string;
  readonly preferredSegment: string;
  readonly tenantId: string;
  readonly enableOffload: boolean;
  /** Puts name the group of each value, so that a chunk's values, of all ranks, are evicted together. */
  readonly groupSemantics: boolean;
  /** Gets tell where each value lay (EngineChannel.tiers). */
  readonly reportTiers: boolean;
  /** Checksums beside the values: puts keep none (off); gets use values without one (when_present) or not (require). */
  readonly verify: PoolVerify;
  /** Gets count only if nothing was removed under them. False only to measure what that costs. */
  readonly checkRemovals: boolean;
  /** Bounds of one call into the store. */
  readonly keysPerCallMax: number;
  readonly bytesPerCallMax: number;
  readonly transferQueueMax: number;
  /** File that the wheel's log goes to. */
  readonly logPath: string;
}

/** An engine in a process of its own over the same memfd regions: this process survives its crash. */
export interface ChildEngineOptions extends EngineLanes {
  readonly kind: "child";
  readonly executable: string;
  /** In front of those that the addon adds. */
  readonly arguments: readonly string[];
  readonly inner: LocalEngineOptions | MooncakeEngineOptions;
}

/**
 * opening: not open yet for the first time. down: unreachable or lost, opened again with back-off. failed: somebody has to change
 * something first. Unless `open`, batches and calls are answered with ENGINE_DOWN at once.
 */
export type EngineState = "opening" | "open" | "down" | "closed" | "failed";

export interface EngineStatus {
  readonly state: EngineState;
  /** Why it is down or failed, or was down last. UNREACHABLE passes by itself; CONFIGURATION, REGISTRATION_REFUSED, ... do not. */
  readonly error: {
    readonly code: string;
    readonly field: string;
    readonly problem: string;
    readonly remedy: string;
  } | null;
  readonly reopenings: number;
  /** Calls that have been in the engine for more than 10 s. */
  readonly hungCalls: number;
  /** Attempts to open that were given up and have not returned. */
  readonly hungOpens: number;
  /** Buffers for values in a user's own KV memory that were not to be had; the keys of that call failed. */
  readonly transitRefusals: number;
  readonly callsInFlight: number;
}

export interface EngineStatistics {
  readonly bytesMax: number;
  readonly bytesUsed: number;
  readonly keys: number;
  readonly evictions: number;
  readonly puts: number;
  readonly putRefusals: number;
  readonly gets: number;
  readonly getMisses: number;
  readonly batchesInFlight: number;
  readonly state: EngineState;
  readonly reopenings: number;
  readonly hungCalls: number;
}

export interface ChannelOptions {
  readonly engineId: number;
  readonly sharedId: number;
  /** First word of the channel in that memory. */
  readonly wordOffset: number;
  readonly batchSlots: number;
  readonly keysPerBatchMax: number;
  readonly wakeId: number;
}
