import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  NONE,
} from "../../blocks/layout.ts";
import { ChainCursor } from "../../blocks/page-arena.ts";
import { alignDown } from "../../keys/coordinator/hit-rules.ts";
import type { KeyOrder, KeyOrderOptions } from "./key-order.ts";

const NO_TAILS: readonly number[] = [];

/**
 * The keys of models whose groups all need every block (`HitRules.uniform`), in prefix order: for every chunk all its keys, group
 * by group, each over all lookup prefixes. Key k belongs to chunk floor(k / keysPerChunk), so the first absent key gives the hit,
 * and a long lookup can stop at it.
 */
export class PrefixKeys implements KeyOrder {
  readonly #keysPerChunk: number;
  readonly #blockSize: number;
  readonly #group: Int32Array;
  readonly #prefix: Int32Array;
  readonly #hashesPerBlock: number;
  readonly #cursor: ChainCursor;
  /** By record: tokens asked about, keys in all, and the first key that is absent or NONE. */
  readonly #tokens: Int32Array;
  readonly #keys: Int32Array;
  readonly #absent: Int32Array;

  constructor({ tables, rules, keySpace }: KeyOrderOptions, records: number) {
    const { blockTokens: blockSize, hashBlockSize } = rules;
    const pairs = keySpace.lookupPrefixesOfGroup.flatMap((prefixes, group) =>
      prefixes.map((prefix) => [group, prefix] as const),
    );
    this.#keysPerChunk = pairs.length;
    this.#blockSize = blockSize;
    this.#group = Int32Array.from(pairs, ([group]) => group);
    this.#prefix = Int32Array.from(pairs, ([, prefix]) => prefix);
    this.#hashesPerBlock = blockSize / hashBlockSize;
    this.#cursor = new ChainCursor(tables.hashes);
    this.#tokens = new Int32Array(records);
    this.#keys = new Int32Array(records);
    this.#absent = new Int32Array(records);
  }

  hashBlocks(tokens: number, hashes: number): number {
    const chunks = Math.min(
      Math.floor(tokens / this.#blockSize),
      Math.floor(hashes / this.#hashesPerBlock),
    );
    return chunks * this.#hashesPerBlock;
  }

  begin(record: number, tokens: number, hashes: number): number {
    this.#tokens[record] = tokens;
    this.#absent[record] = NONE;
    this.#keys[record] = (hashes / this.#hashesPerBlock) * this.#keysPerChunk;
    return this.#keys[record];
  }

  fill(entries: Int32Array, _record: number, hashPage: number, from: number, to: number): void {
    const keysPerChunk = this.#keysPerChunk;
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

  told(record: number, key: number, exists: boolean): boolean {
    if (exists) return false;
    const known = this.#absent[record]!;
    if (known === NONE || key < known) this.#absent[record] = key;
    return true;
  }

  /** A hit on all tokens is derived again below them, so that the last token is computed for sampling. */
  hitTokens(record: number): number {
    const absent = this.#absent[record]!;
    const keys = absent === NONE ? this.#keys[record]! : absent;
    const leading = Math.floor(keys / this.#keysPerChunk) * this.#blockSize;
    return Math.min(leading, alignDown(this.#tokens[record]! - 1, this.#blockSize));
  }

  tailTokens(): readonly number[] {
    return NO_TAILS;
  }

  end(): void {}

  /** A chunk is named by the hash of its last hash block. */
  #chunkRow(cursor: ChainCursor): number {
    let row = NONE;
    for (let count = 0; count < this.#hashesPerBlock; count++) row = cursor.advanceRow();
    return row;
  }
}
