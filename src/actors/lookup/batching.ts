import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  NONE,
} from "../../blocks/layout.ts";
import { ChainCursor } from "../../blocks/page-arena.ts";
import type { Tables } from "../../blocks/tables.ts";

/**
 * The keys of a lookup in prefix order: for every chunk all its keys, group by group, each over all lookup prefixes. Key k
 * belongs to chunk floor(k / keysPerChunk), so the first absent key gives the hit, and a long lookup can stop at it.
 */
export class LookupKeys {
  readonly keysPerChunk: number;
  readonly #group: Int32Array;
  readonly #prefix: Int32Array;
  readonly #hashesPerBlock: number;
  readonly #cursor: ChainCursor;

  constructor(tables: Tables, lookupPrefixesOfGroup: readonly (readonly number[])[]) {
    const { blockSize, hashBlockSize } = tables.dimensions;
    const pairs = lookupPrefixesOfGroup.flatMap((prefixes, group) =>
      prefixes.map((prefix) => [group, prefix] as const),
    );
    this.keysPerChunk = pairs.length;
    this.#group = Int32Array.from(pairs, ([group]) => group);
    this.#prefix = Int32Array.from(pairs, ([, prefix]) => prefix);
    this.#hashesPerBlock = blockSize / hashBlockSize;
    this.#cursor = new ChainCursor(tables.hashes);
  }

  /** Writes keys [from, to) of a request into a batch. */
  fill(entries: Int32Array, hashPage: number, from: number, to: number): void {
    const { keysPerChunk } = this;
    const chunk = Math.floor(from / keysPerChunk);
    const cursor = this.#cursor.seek(hashPage, chunk * this.#hashesPerBlock);
    let inChunk = from - chunk * keysPerChunk;
    let hashRow = this.#chunkRow(cursor);
    for (let at = 0; at < (to - from) * ENTRY_WORDS; at += ENTRY_WORDS) {
      if (inChunk === keysPerChunk) {
        inChunk = 0;
        hashRow = this.#chunkRow(cursor);
      }
      entries[at + ENTRY_GROUP] = this.#group[inChunk]!;
      entries[at + ENTRY_PREFIX] = this.#prefix[inChunk++]!;
      entries[at + ENTRY_BLOCK] = NONE;
      entries[at + ENTRY_HASH_ROW] = hashRow;
    }
  }

  /** A chunk is named by the hash of its last hash block. */
  #chunkRow(cursor: ChainCursor): number {
    let row = NONE;
    for (let count = 0; count < this.#hashesPerBlock; count++) row = cursor.advanceRow();
    return row;
  }
}
