/**
 * Loads from a pool with a disk tier: the owner of a value stages it in a buffer of bounded size, so a get must not ask for more
 * at once than fits. vLLM's rule: values are rounded up to whole pages and padded; batches are filled in order.
 */

const PAGE_BYTES = 4096;
/** Room that direct I/O needs before and after a value. */
const PADDING_BYTES = 2 * PAGE_BYTES;
/** vLLM's `VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO`. */
export const STAGING_USABLE_RATIO = 0.9;

export interface StagingBudget {
  /** Bytes of the owner's buffer: no value may need more. */
  readonly rawBytes: number;
  /** What a batch of several values may need together. */
  readonly usableBytes: number;
}

export type DiskSplit =
  /** `ends[i]`: one behind the last key of batch i; keys keep their order. */
  | { readonly kind: "batches"; readonly ends: readonly number[] }
  /** This key alone does not fit: nothing of the load can be asked for in this way. */
  | { readonly kind: "oversize"; readonly key: number };

export function stagingBudget(rawBytes: number, usableRatio = STAGING_USABLE_RATIO): StagingBudget {
  return { rawBytes, usableBytes: Math.max(1, Math.trunc(rawBytes * usableRatio)) };
}

/** Bytes that a value of `bytes` bytes takes in the buffer. */
export function stagingBytes(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES + PADDING_BYTES;
}

/** Cuts a load into batches that fit. `bytesOfKey`: size of each value in the order of the keys. */
export function splitForStaging(bytesOfKey: ArrayLike<number>, budget: StagingBudget): DiskSplit {
  const { rawBytes, usableBytes } = budget;
  const ends: number[] = [];
  const count = bytesOfKey.length;
  let batchBytes = 0;
  let from = 0;
  const close = (end: number): void => {
    if (end > from) ends.push(end);
    from = end;
    batchBytes = 0;
  };
  for (let key = 0; key < count; key++) {
    const bytes = stagingBytes(bytesOfKey[key] ?? 0);
    if (bytes > rawBytes) return { kind: "oversize", key };
    if (batchBytes + bytes > usableBytes) close(key);
    batchBytes += bytes;
    // Above the usable share a value goes alone.
    if (bytes > usableBytes) close(key + 1);
  }
  close(count);
  return { kind: "batches", ends };
}
