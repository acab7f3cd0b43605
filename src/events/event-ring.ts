import { brokenInvariant } from "../errors.ts";

/**
 * A bounded ring of records of Int32 words in shared memory, by which one thread tells another of KV events: one writer, one reader,
 * no waiting. When the reader is behind, NEW records are dropped and counted, so that what is published stays stable.
 *
 * Positions count words, wrap at 32 bits and are only compared by difference. A successor of a dead writer makes a new writer over
 * the same ring; a record that the dead thread had not published does not exist.
 */
const TAIL_WORD = 0;
const LOST_WORD = 1;
const HEAD_WORD = 16;
const HEADER_WORDS = 32;

/** Shared memory of a ring for `words` words (a power of two). Zeroed memory is a valid empty ring. */
export function createEventRing(words: number): SharedArrayBuffer {
  if (!Number.isInteger(Math.log2(words)) || words < 64 || words > 2 ** 28)
    brokenInvariant("words of an event ring must be a power of two from 64 to 2^28", words);
  return new SharedArrayBuffer((HEADER_WORDS + words) * 4);
}

/** Used by one thread only. Allocates nothing. */
export class EventRingWriter {
  readonly #words: Int32Array;
  readonly #mask: number;
  #tail: number;
  #lost: number;
  #at = 0;

  constructor(ring: SharedArrayBuffer) {
    this.#words = new Int32Array(ring);
    this.#mask = this.#words.length - HEADER_WORDS - 1;
    // Pair with the stores of a predecessor that has ended: its successor goes on where it stopped.
    this.#tail = Atomics.load(this.#words, TAIL_WORD);
    this.#lost = Atomics.load(this.#words, LOST_WORD);
  }

  /** Opens a record of `words` words. False: no room; the record counts as lost, and nothing may be put. */
  open(words: number): boolean {
    // Pairs with the reader's store in `drain`: what lies before the head may be written again.
    const head = Atomics.load(this.#words, HEAD_WORD);
    const used = (this.#tail - head) | 0;
    if (used + words + 1 > this.#mask + 1) {
      this.#lost = (this.#lost + 1) | 0;
      // Pairs with the reader's load in `lost`.
      Atomics.store(this.#words, LOST_WORD, this.#lost);
      return false;
    }
    this.#at = this.#tail;
    this.put(words);
    return true;
  }

  put(word: number): void {
    this.#words[HEADER_WORDS + (this.#at & this.#mask)] = word;
    this.#at = (this.#at + 1) | 0;
  }
  putWords(from: Int32Array, offset: number, count: number): void {
    for (let index = 0; index < count; index++) this.put(from[offset + index]!);
  }

  /** Publishes the open record. Exactly the words that it was opened with must have been put. */
  close(): void {
    this.#tail = this.#at;
    // Pairs with the reader's load of the tail in `drain`.
    Atomics.store(this.#words, TAIL_WORD, this.#tail);
  }
}

/** Takes records out of one ring; used by one thread only. */
export class EventRingReader {
  readonly #words: Int32Array;
  readonly #mask: number;
  #lostWord = 0;
  #lost = 0;

  constructor(ring: SharedArrayBuffer) {
    this.#words = new Int32Array(ring);
    this.#mask = this.#words.length - HEADER_WORDS - 1;
  }

  /** Copies of the records that are there, oldest first, at most `recordsMax`; gives their room back. */
  *drain(recordsMax: number): Generator<Int32Array> {
    const words = this.#words;
    // Pairs with this reader's own store.
    let head = Atomics.load(words, HEAD_WORD);
    // Pairs with the writer's publishing store in `close`.
    const tail = Atomics.load(words, TAIL_WORD);
    for (let records = 0; head !== tail && records < recordsMax; records++) {
      const record = new Int32Array(this.#word(head));
      for (let index = 0; index < record.length; index++)
        record[index] = this.#word(head + 1 + index);
      head = (head + 1 + record.length) | 0;
      // Gives the room back; pairs with the writer's load of the head in `open`.
      Atomics.store(words, HEAD_WORD, head);
      yield record;
    }
  }

  /** Records dropped since the ring was made; exact as long as fewer than 2^32 are lost between two calls. */
  lost(): number {
    // Pairs with the writer's store of the count in `open`.
    const word = Atomics.load(this.#words, LOST_WORD);
    this.#lost += (word - this.#lostWord) >>> 0;
    this.#lostWord = word;
    return this.#lost;
  }

  #word(position: number): number {
    return this.#words[HEADER_WORDS + (position & this.#mask)]!;
  }
}
