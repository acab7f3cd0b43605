/**
 * What a job asks of the pool, and what it hears. Jobs are generators: they yield a request, are resumed with the answer, and
 * return their end; so the same rules run under an actor, a simulator and the golden traces.
 */
import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  EXISTS_UNCHECKED,
} from "../../blocks/layout.ts";

export interface StoreRequest {
  readonly operation: "exists" | "put" | "get";
  /** ENTRY_WORDS words a key, as a batch slot holds them. The prefix is the number of the shard in the group's own prefixes. */
  readonly entries: Int32Array;
}

/** A result a key (exists: 1 for yes; put and get: below 0 for a failure), or null when the whole request failed. */
export type StoreAnswer = ArrayLike<number> | null;

export type StoreJob<End> = Generator<StoreRequest, End, StoreAnswer>;

/** Entries in the making. */
export class EntryList {
  readonly #words: number[] = [];

  get count(): number {
    return this.#words.length / ENTRY_WORDS;
  }

  add(group: number, shard: number, block: number, hash: number): void {
    const at = this.#words.length;
    this.#words[at + ENTRY_GROUP] = group;
    this.#words[at + ENTRY_PREFIX] = shard;
    this.#words[at + ENTRY_BLOCK] = block;
    this.#words[at + ENTRY_HASH_ROW] = hash;
  }

  entries(): Int32Array {
    return Int32Array.from(this.#words);
  }
}

/** The answer of `exists` says that the pool has the key; whether a load would use its value is another matter. */
export function isPresent(result: number): boolean {
  return result === 1 || result === EXISTS_UNCHECKED;
}

/** The entries that an exists answer does not confirm: what could not be asked for counts as absent. */
export function missingEntries(entries: Int32Array, answer: ArrayLike<number>): Int32Array {
  return entries.filter((_, word) => !isPresent(answer[Math.floor(word / ENTRY_WORDS)] ?? 0));
}

/** The entries from key `start` on, and then those before it. */
export function rotatedEntries(entries: Int32Array, start: number): Int32Array {
  const rotated = new Int32Array(entries.length);
  rotated.set(entries.subarray(start * ENTRY_WORDS));
  rotated.set(entries.subarray(0, start * ENTRY_WORDS), entries.length - start * ENTRY_WORDS);
  return rotated;
}
