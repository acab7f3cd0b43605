import {
  LOGPROB_COUNT,
  LOGPROB_GENERATION,
  LOGPROB_INDEX,
  LOGPROB_LOGPROBS_F32,
  LOGPROB_ROW_WORDS,
  LOGPROB_SLOT,
  LOGPROB_TOKENS,
  LOGPROBS_HEADER_WORDS,
  LOGPROBS_WRITTEN_WORD,
  NONE,
  SEQUENCE_GENERATION,
  SEQUENCE_SLOT,
  SEQUENCE_TOP_COUNT,
  SEQUENCE_TOP_LOGPROBS_F32,
  SEQUENCE_TOP_TOKENS,
} from "./layout.ts";
import type { Tables } from "./tables.ts";

/** One of the most likely tokens at a position, and the logarithm of its probability. */
export interface TopLogprob {
  readonly token: number;
  readonly logprob: number;
}

/**
 * Scheduler only: copies the top list of a sequence of a step buffer into the next row of the ring and returns the row, to be
 * named by `tokenGenerated.logprobRow`; NONE when the sequence has no top list. `sequenceOffset` is the word offset of the
 * sequence in `tables.steps`, `index` the token's number in the answer. Call `room` of the front end's mailbox first: a row
 * is safe as long as its message is one of those that the mailbox holds.
 */
export function appendLogprobRow(tables: Tables, sequenceOffset: number, index: number): number {
  if (tables.steps[sequenceOffset + SEQUENCE_TOP_COUNT]! <= 0) return NONE;
  const written = tables.logprobs[LOGPROBS_WRITTEN_WORD]!;
  const row = written & (rowCount(tables) - 1);
  writeLogprobRow(tables, row, sequenceOffset, index);
  // Pairs with the load of a successor, which starts after this thread has ended.
  Atomics.store(tables.logprobs, LOGPROBS_WRITTEN_WORD, (written + 1) | 0);
  return row;
}

/** Fills one row; it becomes visible to the front end with the message that names it. */
export function writeLogprobRow(
  tables: Tables,
  row: number,
  sequenceOffset: number,
  index: number,
): void {
  const { steps, stepsF32, logprobs, logprobsF32 } = tables;
  const at = LOGPROBS_HEADER_WORDS + row * LOGPROB_ROW_WORDS;
  const count = steps[sequenceOffset + SEQUENCE_TOP_COUNT]!;
  logprobs[at + LOGPROB_SLOT] = steps[sequenceOffset + SEQUENCE_SLOT]!;
  logprobs[at + LOGPROB_GENERATION] = steps[sequenceOffset + SEQUENCE_GENERATION]!;
  logprobs[at + LOGPROB_INDEX] = index;
  logprobs[at + LOGPROB_COUNT] = count;
  for (let rank = 0; rank < count; rank++) {
    logprobs[at + LOGPROB_TOKENS + rank] = steps[sequenceOffset + SEQUENCE_TOP_TOKENS + rank]!;
    logprobsF32[at + LOGPROB_LOGPROBS_F32 + rank] =
      stepsF32[sequenceOffset + SEQUENCE_TOP_LOGPROBS_F32 + rank]!;
  }
}

/** Front end: the list in `row`, most likely first; null when the row belongs to another token by now. */
export function readLogprobRow(
  tables: Tables,
  row: number,
  slot: number,
  generation: number,
  index: number,
): TopLogprob[] | null {
  const { logprobs, logprobsF32 } = tables;
  if (row < 0 || row >= rowCount(tables)) return null;
  const at = LOGPROBS_HEADER_WORDS + row * LOGPROB_ROW_WORDS;
  const owned =
    logprobs[at + LOGPROB_SLOT] === slot &&
    logprobs[at + LOGPROB_GENERATION] === generation &&
    logprobs[at + LOGPROB_INDEX] === index;
  if (!owned) return null;
  return Array.from({ length: logprobs[at + LOGPROB_COUNT]! }, (_, rank) => ({
    token: logprobs[at + LOGPROB_TOKENS + rank]!,
    logprob: logprobsF32[at + LOGPROB_LOGPROBS_F32 + rank]!,
  }));
}

function rowCount(tables: Tables): number {
  return (tables.logprobs.length - LOGPROBS_HEADER_WORDS) / LOGPROB_ROW_WORDS;
}
