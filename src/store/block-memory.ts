import { MooncakeKvError } from "../errors.ts";

/** One segment of every block: block b's bytes are [offset + b * strideBytes, + bytes) of the region. */
export interface BlockSegment {
  readonly offset: number;
  readonly strideBytes: number;
  readonly bytes: number;
}

/** KV memory of one group as the simulated engine sees it: a value is the plain concatenation of a block's segments. */
export class BlockMemory {
  readonly valueBytes: number;
  readonly blockCount: number;
  readonly #region: Uint8Array;
  readonly #segments: readonly BlockSegment[];

  constructor(region: Uint8Array, segments: readonly BlockSegment[], blockCount: number) {
    for (const { offset, strideBytes, bytes } of segments) {
      const end = offset + (blockCount - 1) * strideBytes + bytes;
      if (offset >= 0 && strideBytes >= 0 && end <= region.length) continue;
      throw new MooncakeKvError({
        code: "INVALID_VALUE",
        field: "segments",
        value: { offset, strideBytes, bytes },
        problem: `with ${blockCount} blocks this segment ends at byte ${end} of ${region.length}`,
        remedy: "Correct the segment or give a larger region.",
      });
    }
    this.#region = region;
    this.#segments = segments;
    this.blockCount = blockCount;
    this.valueBytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
  }

  /** Blocks of `bytesPerBlock` one behind another. */
  static contiguous(region: Uint8Array, bytesPerBlock: number): BlockMemory {
    const segment = { offset: 0, strideBytes: bytesPerBlock, bytes: bytesPerBlock };
    return new BlockMemory(region, [segment], Math.floor(region.length / bytesPerBlock));
  }

  has(block: number): boolean {
    return block >= 0 && block < this.blockCount;
  }

  /** A copy of the block's value. */
  read(block: number): Uint8Array {
    const value = new Uint8Array(this.valueBytes);
    let at = 0;
    for (const { offset, strideBytes, bytes } of this.#segments) {
      const start = offset + block * strideBytes;
      value.set(this.#region.subarray(start, start + bytes), at);
      at += bytes;
    }
    return value;
  }

  write(block: number, value: Uint8Array): void {
    let at = 0;
    for (const { offset, strideBytes, bytes } of this.#segments) {
      this.#region.set(value.subarray(at, at + bytes), offset + block * strideBytes);
      at += bytes;
    }
  }
}
