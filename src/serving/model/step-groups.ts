import type { StepBatch } from "./step-batch.ts";

/** Sequences that compute more than one token share a run only up to this many (padded) tokens. */
const GROUP_TOKENS_MAX = 512;
/** Below this many blocks a shorter block table may be padded to the longest one whatever the ratio. */
const PADDING_FREE_BLOCKS = 32;

/**
 * Splits a step into runs of the model. Sequences of similar length run together, because a run pads every member to the
 * longest: all decodes of one token, and short prefill chunks; a long prefill chunk runs alone.
 *
 * The arrays are reused from step to step. How a step is split does not change a bit of the results.
 */
export class StepGroups {
  groupCount = 0;
  /** Sequence numbers, group after group; the first of a group has the most tokens. */
  order = new Int32Array(64);
  /** Exclusive end of each group in `order`. */
  groupEnds = new Int32Array(64);
  /** Index of each sequence's first token in `tokenIds`. */
  tokenOffsets = new Int32Array(64);
  private readonly blockSize: number;
  private readonly gatheredBlocksMax: number;

  /** `gatheredBlocksMax` bounds the memory of a run: blocks of all members together, padding included. */
  constructor(blockSize: number, gatheredBlocksMax: number) {
    this.blockSize = blockSize;
    this.gatheredBlocksMax = gatheredBlocksMax;
  }

  /** Blocks that hold a sequence's positions up to its last token of this step. */
  blocksOf(batch: StepBatch, sequence: number): number {
    const end = batch.startPositions[sequence]! + batch.tokenCounts[sequence]!;
    return Math.ceil(end / this.blockSize);
  }

  plan(batch: StepBatch): void {
    this.reserve(batch.sequenceCount);
    let tokens = 0;
    for (let sequence = 0; sequence < batch.sequenceCount; sequence++) {
      this.tokenOffsets[sequence] = tokens;
      tokens += batch.tokenCounts[sequence]!;
      this.insertSorted(batch, sequence);
    }
    this.groupCount = 0;
    let first = 0;
    while (first < batch.sequenceCount) {
      const end = this.groupEnd(batch, first);
      this.groupEnds[this.groupCount++] = end;
      first = end;
    }
  }

  /** Most tokens first, then most blocks; equal sequences keep their order. */
  private insertSorted(batch: StepBatch, sequence: number): void {
    const tokens = batch.tokenCounts[sequence]!;
    const start = batch.startPositions[sequence]!;
    let at = sequence;
    while (at > 0) {
      const other = this.order[at - 1]!;
      const otherTokens = batch.tokenCounts[other]!;
      if (otherTokens > tokens) break;
      if (otherTokens === tokens && batch.startPositions[other]! >= start) break;
      this.order[at] = other;
      at--;
    }
    this.order[at] = sequence;
  }

  private groupEnd(batch: StepBatch, first: number): number {
    const tokensMax = batch.tokenCounts[this.order[first]!]!;
    let blocksMax = this.blocksOf(batch, this.order[first]!);
    let end = first + 1;
    for (; end < batch.sequenceCount; end++) {
      const sequence = this.order[end]!;
      const tokens = batch.tokenCounts[sequence]!;
      const blocks = this.blocksOf(batch, sequence);
      const widest = Math.max(blocksMax, blocks);
      const members = end - first + 1;
      if (tokens * 4 < tokensMax * 3) break;
      if (tokensMax > 1 && members * tokensMax > GROUP_TOKENS_MAX) break;
      if (members * widest > this.gatheredBlocksMax) break;
      if (widest > PADDING_FREE_BLOCKS && Math.min(blocks, blocksMax) * 2 < widest) break;
      blocksMax = widest;
    }
    return end;
  }

  private reserve(sequenceCount: number): void {
    if (this.order.length >= sequenceCount) return;
    const size = Math.max(sequenceCount, this.order.length * 2);
    this.order = new Int32Array(size);
    this.groupEnds = new Int32Array(size);
    this.tokenOffsets = new Int32Array(size);
  }
}
