import { MooncakeKvError } from "../../errors.ts";

/**
 * One scheduling step's work for the model, as flat arrays that the caller owns and reuses between steps; only the first
 * `sequenceCount` entries (and their tokens) are read. The arrays must not change while `runStep` is in flight.
 *
 * A sequence must not read a block that another sequence of the same step writes: the step is split into several runs, and
 * new rows reach the pool after the run that computed them.
 */
export interface StepBatch {
  sequenceCount: number;
  /** Token ids of all sequences, one sequence after the other. */
  tokenIds: Int32Array;
  /** [sequenceCount]: tokens to compute of each sequence, at least 1. */
  tokenCounts: Int32Array;
  /** [sequenceCount]: position of each sequence's first token to compute; all earlier positions are in the pool. */
  startPositions: Int32Array;
  /** [sequenceCount][blockTableStride]: block ids by block index; entries beyond the last position are not read. */
  blockTable: Int32Array;
  blockTableStride: number;
  /** Filled by the step, [sequenceCount][vocabulary]: the logits after each sequence's last token. */
  logits: Float32Array;
}

export interface StepLimits {
  readonly blockSize: number;
  readonly blockCount: number;
  readonly vocabularySize: number;
  readonly contextTokensMax: number;
}

/**
 * Refuses a batch that would read or write outside its arrays, the pool or the vocabulary. Throws INVALID_VALUE.
 *
 * The graph itself takes negative ids as counted from the end, so nothing else would catch them.
 */
export function checkStepBatch(batch: StepBatch, limits: StepLimits): void {
  const { sequenceCount, tokenCounts, startPositions, blockTable, blockTableStride } = batch;
  if (tokenCounts.length < sequenceCount || startPositions.length < sequenceCount) {
    refuse("sequenceCount", sequenceCount, "tokenCounts or startPositions is shorter than that");
  }
  if (blockTable.length < sequenceCount * blockTableStride) {
    refuse("blockTable", blockTable.length, "it is shorter than sequenceCount * blockTableStride");
  }
  if (batch.logits.length < sequenceCount * limits.vocabularySize) {
    refuse("logits", batch.logits.length, "it is shorter than sequenceCount * vocabulary");
  }
  let tokens = 0;
  for (let sequence = 0; sequence < sequenceCount; sequence++) {
    const count = tokenCounts[sequence]!;
    const start = startPositions[sequence]!;
    if (count < 1)
      refuse(`tokenCounts[${sequence}]`, count, "a sequence must compute at least one token");
    if (start < 0) refuse(`startPositions[${sequence}]`, start, "a position cannot be negative");
    if (start + count > limits.contextTokensMax) {
      refuse(
        `startPositions[${sequence}]`,
        start + count,
        "the sequence would be longer than the model's context",
      );
    }
    const blocks = Math.ceil((start + count) / limits.blockSize);
    if (blocks > blockTableStride)
      refuse("blockTableStride", blockTableStride, `${blocks} blocks are needed`);
    for (let index = 0; index < blocks; index++) {
      const block = blockTable[sequence * blockTableStride + index]!;
      if (block < 0 || block >= limits.blockCount) {
        refuse(
          `blockTable[${sequence}][${index}]`,
          block,
          `the pool has ${limits.blockCount} blocks`,
        );
      }
    }
    tokens += count;
  }
  if (batch.tokenIds.length < tokens)
    refuse("tokenIds", batch.tokenIds.length, `${tokens} tokens are needed`);
  for (let index = 0; index < tokens; index++) {
    const token = batch.tokenIds[index]!;
    if (token < 0 || token >= limits.vocabularySize) {
      refuse(`tokenIds[${index}]`, token, `the vocabulary has ${limits.vocabularySize} tokens`);
    }
  }
}

function refuse(field: string, value: number, problem: string): never {
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field,
    value,
    problem,
    remedy: "Correct the batch that the scheduler hands to the model.",
  });
}
