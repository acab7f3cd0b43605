/** Writes a block's tuple in one encoding, value by value. Not for use by two threads. */
export interface ValueWriter {
  /**
   * Forgets what was written and keeps the memory. `memoized`: objects that come before in the message that this is a part of
   * (a pickle counts them; CBOR does not).
   */
  reset(memoized?: number): void;
  /** The bytes of the values written so far: a view that the next write invalidates. */
  view(): Uint8Array;
  /** The same, as the caller's own copy. */
  copy(): Uint8Array;
  /** What is hashed when exactly one value was written: a view, as above. */
  message(): Uint8Array;

  null(): void;
  /** An integer between -2^53 and 2^53. Throws INVALID_VALUE for anything else. */
  integer(value: number): void;
  bytes(value: Uint8Array): void;
  /** Throws INVALID_VALUE for half a surrogate pair. */
  text(value: string): void;
  /** A text that is one object however often it occurs in vLLM's tuples. */
  tag(value: string): void;
  /** Values in this encoding already. */
  raw(value: Uint8Array): void;
  /** Around the `count` items of a tuple. */
  array(count: number): void;
  endArray(count: number): void;
}
