/**
 * The arithmetic of the simulated model. A token's KV in each lane (rank and group) is 8 bytes: a function of the token, the
 * lane and ALL KV before it; the next token is a hash of all KV. So one wrong, missing or misplaced block shows in the text.
 */
export const KV_WORDS_PER_TOKEN = 2;
export const SIMULATED_KV_BYTES_PER_TOKEN = KV_WORDS_PER_TOKEN * 4;
export const HASH_START = 0x12345678;

export interface SimulatedModelShape {
  readonly ranks: number;
  readonly groups: number;
  /** All ranks hold the same bytes, as with replicated KV heads. */
  readonly ranksAreEqual: boolean;
  readonly vocabulary: number;
}

export function absorb(hash: number, first: number, second: number): number {
  let mixed = Math.imul(hash ^ first, 0x9e3779b1);
  mixed = Math.imul((mixed ^ (mixed >>> 15)) + second, 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) | 0;
}

/** Number that tells the bytes of a (rank, group) from those of another. */
export function laneOf(shape: SimulatedModelShape, rank: number, group: number): number {
  return (shape.ranksAreEqual ? 0 : rank * shape.groups) + group;
}
export function kvFirst(hash: number, token: number, lane: number): number {
  return (Math.imul(hash ^ token, 0xc2b2ae35) + lane) | 0;
}
export function kvSecond(hash: number, token: number, lane: number): number {
  return Math.imul((hash >>> 3) + token, 0x27d4eb2f + 2 * lane) | 0;
}
export function tokenOf(hash: number, vocabulary: number): number {
  return (hash >>> 0) % vocabulary;
}

/** The hash after one more token, computed without memory. */
export function feedToken(hash: number, token: number, shape: SimulatedModelShape): number {
  let next = hash;
  for (let rank = 0; rank < shape.ranks; rank++)
    for (let group = 0; group < shape.groups; group++) {
      const lane = laneOf(shape, rank, group);
      next = absorb(next, kvFirst(hash, token, lane), kvSecond(hash, token, lane));
    }
  return next;
}

/** What the model must answer to a prompt: computed without blocks, from the tokens alone. */
export function modelTruth(
  prompt: readonly number[],
  outputTokens: number,
  shape: SimulatedModelShape,
): number[] {
  const output: number[] = [];
  let hash = HASH_START;
  for (const token of prompt) hash = feedToken(hash, token, shape);
  while (output.length < outputTokens) {
    const token = tokenOf(hash, shape.vocabulary);
    output.push(token);
    hash = feedToken(hash, token, shape);
  }
  return output;
}
