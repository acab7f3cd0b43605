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
  /** Drops the creator's hold; the memory goes when no view, key space or batch uses it. */
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

  /** Opens an engine. Runtimes of one process that name the same `poolName` share its memory (reference-counted). */
  engineOpen(options: EngineOptions): number;
  /** Waits at most `timeoutMs` for batches in flight; returns how many are still in flight (0: closed for good). */
  engineClose(engineId: number, timeoutMs: number): number;
  engineStatistics(engineId: number): EngineStatistics;
  /** Test seam and doctor: flips one bit of a stored value; false when the key is absent. */
  engineCorrupt(engineId: number, key: string, byteOffset: number): boolean;
  /** Keys that start with `prefix` ("" = all), at most `limit`. */
  engineKeys(engineId: number, prefix: string, limit: number): string[];
  /** Removes keys that start with `prefix` and are not being read or written; returns how many. */
  engineRemovePrefix(engineId: number, prefix: string): number;

  /** Opens a channel in registered control memory (layout.ts, "Engine channel"); completions wake `wakeId`. */
  channelOpen(options: ChannelOptions): number;
  /** Stops taking batches; returns how many are in flight. The memory stays in use until they are done. */
  channelClose(channelId: number): number;
  /** Hands batch slot `slot` to the engine. Never blocks. The batch's words must be filled, its state SUBMITTED. */
  channelSubmit(channelId: number, slot: number): void;
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
export type EngineOptions = LocalEngineOptions;

/** A bounded pool in the memory of this process. */
export interface LocalEngineOptions {
  readonly kind: "local";
  readonly poolName: string;
  readonly bytesMax: number;
  readonly ioThreads: number;
  /** Checksum every value at put and verify it at get: a mismatch gives CHECKSUM_MISMATCH and drops the value. */
  readonly verifyChecksums: boolean;
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
