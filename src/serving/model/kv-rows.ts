import { rowElements, rowsPerBlock } from "./llama-config.ts";
import type { LlamaConfig } from "./llama-config.ts";
import type { StepBatch } from "./step-batch.ts";

/** Up to this many numbers a plain loop is faster than making a view for `set`. */
const LOOP_ELEMENTS_MAX = 256;

/**
 * Writes keys and values into the paged pool: [blocks][layers][key, value][kvHeads][blockSize][headSize] float32.
 * Belongs to the thread that runs the model.
 */
export class KvRows {
  private readonly pool: Float32Array;
  private readonly config: LlamaConfig;
  private readonly blockSize: number;
  private readonly rowElements: number;
  private readonly blockElements: number;

  constructor(pool: Float32Array, config: LlamaConfig, blockSize: number) {
    this.pool = pool;
    this.config = config;
    this.blockSize = blockSize;
    this.rowElements = rowElements(config, blockSize);
    this.blockElements = rowsPerBlock(config) * this.rowElements;
  }

  /**
   * Zeroes the positions after the last token in a block that this step begins.
   *
   * They are masked out, but a masked value still enters the sums multiplied by 0, and 0 times a NaN or infinity left behind
   * by the block's previous owner would not be 0.
   */
  clearTail(batch: StepBatch, sequence: number): void {
    const start = batch.startPositions[sequence]!;
    const end = start + batch.tokenCounts[sequence]!;
    const used = end % this.blockSize;
    if (used === 0 || end - used < start) return;
    const block =
      batch.blockTable[sequence * batch.blockTableStride + (end - used) / this.blockSize]!;
    const blockStart = block * this.blockElements;
    for (let at = blockStart; at < blockStart + this.blockElements; at += this.rowElements) {
      this.pool.fill(0, at + used * this.config.headSize, at + this.rowElements);
    }
  }

  /**
   * Copies one layer's new keys or values of one sequence into its blocks. `rows` is the run's output
   * [members][kvHeads][tokensPerMember][headSize]; `member` is the sequence's place in the run.
   */
  scatter(
    batch: StepBatch,
    sequence: number,
    rows: Float32Array,
    member: number,
    tokensPerMember: number,
    layerKind: number,
  ): void {
    const { kvHeadCount, headSize } = this.config;
    const start = batch.startPositions[sequence]!;
    const count = batch.tokenCounts[sequence]!;
    const tableStart = sequence * batch.blockTableStride;
    for (let done = 0; done < count;) {
      const position = start + done;
      const offset = position % this.blockSize;
      const tokens = Math.min(this.blockSize - offset, count - done);
      const block = batch.blockTable[tableStart + (position - offset) / this.blockSize]!;
      const kindStart = block * this.blockElements + layerKind * kvHeadCount * this.rowElements;
      for (let head = 0; head < kvHeadCount; head++) {
        const from = ((member * kvHeadCount + head) * tokensPerMember + done) * headSize;
        const to = kindStart + head * this.rowElements + offset * headSize;
        this.copy(rows, from, to, tokens * headSize);
      }
      done += tokens;
    }
  }

  private copy(rows: Float32Array, from: number, to: number, elements: number): void {
    if (elements > LOOP_ELEMENTS_MAX) {
      this.pool.set(rows.subarray(from, from + elements), to);
      return;
    }
    const pool = this.pool;
    for (let index = 0; index < elements; index++) pool[to + index] = rows[from + index]!;
  }
}
