import { MergeQueue } from "./merge-queue.ts";

/** Ranks are part of the queue's keys. */
export const MERGES_MAX = 1 << 21;

/**
 * Joins the symbols of a word by a vocabulary's merges, in the order in which Hugging Face's `tokenizers` does: always the
 * adjacent pair of the lowest rank, the leftmost of several.
 */
export class BytePairMerges {
  readonly #tokenCount: number;
  /** left * tokenCount + right to the rank. */
  readonly #ranks = new Map<number, number>();
  readonly #results: Int32Array;
  readonly #queue = new MergeQueue();
  /** Of each symbol: the neighbours, -1 at an end. */
  #previous = new Int32Array(64);
  #next = new Int32Array(64);

  /** `merges`: "left right", best first; those of tokens outside the vocabulary have no effect. */
  constructor(ids: ReadonlyMap<string, number>, tokenCount: number, merges: readonly string[]) {
    this.#tokenCount = tokenCount;
    this.#results = new Int32Array(merges.length);
    merges.forEach((merge, rank) => {
      const [before, after] = mergeParts(merge);
      const [left, right, result] = [ids.get(before), ids.get(after), ids.get(before + after)];
      if (left === undefined || right === undefined || result === undefined) return;
      this.#ranks.set(left * tokenCount + right, rank);
      this.#results[rank] = result;
    });
  }

  /** Merges in place; `symbols` are token ids. Returns how many are left, at the front. */
  merge(symbols: Int32Array, count: number): number {
    this.#link(count);
    const [previous, next, queue] = [this.#previous, this.#next, this.#queue];
    for (let at = 0; at + 1 < count; at++) this.#offer(symbols, at, at + 1);
    while (queue.pop()) {
      const at = queue.position;
      const after = symbols[at]! < 0 ? -1 : next[at]!;
      // The pair may have changed since it was queued.
      if (after < 0 || this.#resultOf(symbols[at]!, symbols[after]!) !== queue.result) continue;
      symbols[at] = queue.result;
      symbols[after] = -1;
      const behind = next[after]!;
      next[at] = behind;
      if (behind >= 0) previous[behind] = at;
      if (previous[at]! >= 0) this.#offer(symbols, previous[at]!, at);
      if (behind >= 0) this.#offer(symbols, at, behind);
    }
    let left = 0;
    for (let at = 0; at < count; at++) if (symbols[at]! >= 0) symbols[left++] = symbols[at]!;
    return left;
  }

  #offer(symbols: Int32Array, at: number, after: number): void {
    const rank = this.#ranks.get(symbols[at]! * this.#tokenCount + symbols[after]!);
    if (rank !== undefined) this.#queue.push(rank, at, this.#results[rank]!);
  }

  #resultOf(left: number, right: number): number {
    const rank = this.#ranks.get(left * this.#tokenCount + right);
    return rank === undefined ? -1 : this.#results[rank]!;
  }

  #link(count: number): void {
    if (this.#next.length < count) {
      this.#previous = new Int32Array(count * 2);
      this.#next = new Int32Array(count * 2);
    }
    for (let at = 0; at < count; at++) {
      this.#previous[at] = at - 1;
      this.#next[at] = at + 1 < count ? at + 1 : -1;
    }
  }
}

/** The two tokens of "left right"; a token may begin with a blank. */
export function mergeParts(merge: string): readonly [string, string] {
  const blank = merge.indexOf(" ", 1);
  return [merge.slice(0, blank), merge.slice(blank + 1)];
}
