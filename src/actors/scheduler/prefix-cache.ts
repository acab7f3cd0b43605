import { HASH_STRIDE_WORDS, NONE } from "../../blocks/layout.ts";
import { brokenInvariant } from "../../errors.ts";

/**
 * Which KV block holds the bytes of which block hash: an open-addressing table over the blocks, with a digest store of its
 * own, because a request's hash row goes away with the request. Typed arrays only; one thread.
 *
 * As in vLLM a hash may be computed twice at the same time by two requests; the first block stays the cached one.
 */
export class PrefixCache {
  /** Of each cached block, at `digestOffset`. */
  readonly digests: Int32Array;
  /** 1 + group of each cached block; 0: the block is not cached. */
  readonly #groups: Uint8Array;
  /** Block ids, or NONE. At most half full, so that probe chains stay short. */
  readonly #table: Int32Array;
  readonly #mask: number;
  #size = 0;

  constructor(blockCount: number) {
    let capacity = 16;
    while (capacity < 2 * blockCount) capacity *= 2;
    this.digests = new Int32Array(blockCount * HASH_STRIDE_WORDS);
    this.#groups = new Uint8Array(blockCount);
    this.#table = new Int32Array(capacity).fill(NONE);
    this.#mask = capacity - 1;
  }

  size(): number {
    return this.#size;
  }

  has(block: number): boolean {
    return this.#groups[block] !== 0;
  }

  digestOffset(block: number): number {
    return block * HASH_STRIDE_WORDS;
  }
  /** KV-cache group of a cached block. */
  group(block: number): number {
    return this.#groups[block]! - 1;
  }

  /** Block with the digest at `words[offset...]` in `group`, or NONE. */
  find(words: Int32Array, offset: number, group: number): number {
    let at = this.#home(words, offset, group);
    for (let block = this.#table[at]!; block !== NONE; block = this.#table[at]!) {
      if (this.#matches(block, words, offset, group)) return block;
      at = (at + 1) & this.#mask;
    }
    return NONE;
  }

  /** Enters a block. False: the hash is there already, with another block. */
  insert(block: number, words: Int32Array, offset: number, group: number): boolean {
    if (this.#groups[block] !== 0) brokenInvariant("block is in the prefix cache already", block);
    let at = this.#home(words, offset, group);
    for (let other = this.#table[at]!; other !== NONE; other = this.#table[at]!) {
      if (this.#matches(other, words, offset, group)) return false;
      at = (at + 1) & this.#mask;
    }
    this.#table[at] = block;
    this.#groups[block] = group + 1;
    const own = block * HASH_STRIDE_WORDS;
    for (let word = 0; word < HASH_STRIDE_WORDS; word++)
      this.digests[own + word] = words[offset + word]!;
    this.#size++;
    return true;
  }

  /** Forgets a block. False: it was not cached. */
  remove(block: number): boolean {
    if (this.#groups[block] === 0) return false;
    let hole = this.#homeOf(block);
    while (this.#table[hole] !== block) hole = (hole + 1) & this.#mask;
    // Later entries of the probe chain move up into the hole, so that lookups need no tombstones.
    for (let at = (hole + 1) & this.#mask; ; at = (at + 1) & this.#mask) {
      const other = this.#table[at]!;
      if (other === NONE) break;
      if (((at - this.#homeOf(other)) & this.#mask) < ((at - hole) & this.#mask)) continue;
      this.#table[hole] = other;
      hole = at;
    }
    this.#table[hole] = NONE;
    this.#groups[block] = 0;
    this.#size--;
    return true;
  }

  #matches(block: number, words: Int32Array, offset: number, group: number): boolean {
    if (this.#groups[block] !== group + 1) return false;
    const own = block * HASH_STRIDE_WORDS;
    for (let word = 0; word < HASH_STRIDE_WORDS; word++)
      if (this.digests[own + word] !== words[offset + word]) return false;
    return true;
  }

  #homeOf(block: number): number {
    return this.#home(this.digests, block * HASH_STRIDE_WORDS, this.#groups[block]! - 1);
  }

  /** Digests are uniform already: their first words are hash enough. */
  #home(words: Int32Array, offset: number, group: number): number {
    return (
      (words[offset]! ^ (words[offset + 1]! >>> 7) ^ Math.imul(group, 0x9e3779b1)) & this.#mask
    );
  }
}
