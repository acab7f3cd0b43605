/**
 * What an actor sees of a storage engine: batches in, completions out. The same face is worn by the native engines (local
 * pool, Mooncake) and by the simulated one, so actors cannot tell them apart.
 *
 * A batch is a number of keys with one operation. It lives in a numbered slot with fixed typed arrays; the actor owns the
 * slot from `acquire` to `submit` and from the completion to `release`; in between the engine does, and the KV blocks named
 * in it must not be handed out again. Every submitted batch completes exactly once.
 */
export interface EngineChannel {
  readonly batchSlots: number;
  readonly keysPerBatchMax: number;

  /** A free batch slot, or -1 when all are in use (push back: try again after a completion). */
  acquire(): number;
  /** Int32 quadruples (group, prefix index, block id, hash row); see ENTRY_ in blocks/layout.ts. */
  entries(slot: number): Int32Array;
  /** After completion, per key: `exists` 1 or 0, `put` and `get` bytes moved, or an EngineCode below 0. */
  results(slot: number): Int32Array;
  /** After completion of a `get`, per key: TIER_MEMORY, TIER_DISK or TIER_UNKNOWN, with CHECK_VERIFIED when it fits its checksum. */
  tiers(slot: number): Int32Array;
  /**
   * Hands the first `count` entries to the engine. `tag` comes back with the completion; `job` is kept for a successor of
   * this actor. Never blocks.
   */
  submit(
    slot: number,
    operation: number,
    keySpaceId: number,
    count: number,
    tag: number,
    job: number,
  ): void;
  /** Next completed batch slot, or -1. `status`, `tag` and the result arrays may then be read until `release`. */
  poll(): number;
  status(slot: number): number;
  tag(slot: number): number;
  job(slot: number): number;
  count(slot: number): number;
  operation(slot: number): number;
  /** Epoch of the actor that submitted the batch: a successor treats others' batches as quarantined. */
  epoch(slot: number): number;
  microseconds(slot: number): number;
  release(slot: number): void;
  /** Batches that the engine has: submitted and not completed. */
  inFlight(): number;
  /** Visits the slots that are submitted and not yet completed; a restarted actor adopts them as quarantined. */
  forEachSubmitted(visit: (slot: number) => void): void;
}

/**
 * Result codes per key and per batch. Those that Mooncake has keep its numbers (ErrorCode in its store), so that both
 * engines read alike; -9xx are our own.
 */
export const EngineCode = {
  OK: 0,
  /** No room in the pool: back-pressure, not an error. */
  NO_AVAILABLE_HANDLE: -200,
  /** A get's buffer is smaller than the value. */
  BUFFER_SMALLER: -600,
  OBJECT_NOT_FOUND: -704,
  /** A put finds a value that was refused, and that a reader has leased: it cannot be replaced yet. */
  OBJECT_HAS_LEASE: -706,
  /** A get's buffer is larger than the value. */
  BUFFER_LARGER: -800,
  ENGINE_ERROR: -901,
  ENGINE_DOWN: -902,
  CLOSED: -903,
  BAD_ENTRY: -904,
  CHECKSUM_MISMATCH: -905,
  /** The engine cannot reach the KV memory that a batch names. */
  REGISTRATION_REFUSED: -906,
  /** A call was not answered in time; it may go on. */
  TIMED_OUT: -907,
  /** There is a value, but no call on single keys takes one of its size; it was not read. */
  VALUE_TOO_LARGE: -908,
  /** The value was removed while it was read: its bytes may be those of another. */
  REMOVED_UNDER_READ: -909,
  /** The pool has the key and cannot read its bytes, now and hereafter. */
  VALUE_UNREADABLE: -910,
} as const;
export type EngineCode = (typeof EngineCode)[keyof typeof EngineCode];
