import type { Message } from "../messages.ts";
import { decodeMessage, encodeMessage, RECORD_WORDS } from "./codec.ts";

/**
 * A bounded mailbox in shared memory: many producers, one consumer (a Vyukov queue of 64-byte records).
 *
 * Word 15 of record i starts as i. A producer claims position p by moving TAIL from p to p + 1 when the record's sequence is
 * p, fills it, and publishes with sequence = p + 1. The consumer takes position h when the sequence is h + 1 and gives the
 * record back with sequence = h + capacity. Positions wrap at 32 bits; only differences are compared.
 *
 * A producer that dies between claim and publish leaves one record that never becomes readable, and the queue would stop
 * there: the consumer skips such a hole once the supervisor says that a producer died (`skipHole`).
 *
 * Sleep protocol: the consumer sets SLEEP, looks once more, and only then sleeps. A producer that published and finds SLEEP
 * set claims it with one compareExchange; the winner alone pays for the wake.
 */
const TAIL = 0;
const HEAD = 16;
const SLEEP = 32;
const REFUSALS = 48;
const HEADER_WORDS = 64;
const SEQUENCE = RECORD_WORDS - 1;

export function mailboxWords(capacity: number): number {
  return HEADER_WORDS + capacity * RECORD_WORDS;
}

export class Mailbox {
  readonly capacity: number;
  readonly #words: Int32Array;
  #head: number;

  /** `words` must be `mailboxWords(capacity)` long and initialised once by `Mailbox.initialise`. Capacity: a power of two. */
  constructor(words: Int32Array) {
    this.#words = words;
    this.capacity = (words.length - HEADER_WORDS) / RECORD_WORDS;
    this.#head = Atomics.load(words, HEAD);
  }

  static initialise(words: Int32Array): void {
    const capacity = (words.length - HEADER_WORDS) / RECORD_WORDS;
    for (let index = 0; index < capacity; index++)
      words[HEADER_WORDS + index * RECORD_WORDS + SEQUENCE] = index;
  }

  /** Any thread. False when the mailbox is full; the refusal is counted. */
  push(message: Message): boolean {
    const words = this.#words;
    let tail = Atomics.load(words, TAIL);
    for (;;) {
      const at = HEADER_WORDS + (tail & (this.capacity - 1)) * RECORD_WORDS;
      // Pairs with the consumer's store in `pop`: the record is free again.
      const lag = (Atomics.load(words, at + SEQUENCE) - tail) | 0;
      if (lag === 0) {
        const seen = Atomics.compareExchange(words, TAIL, tail, (tail + 1) | 0);
        if (seen === tail) {
          encodeMessage(words, at, message);
          // Publishes the record; pairs with the load in `pop`.
          Atomics.store(words, at + SEQUENCE, (tail + 1) | 0);
          return true;
        }
        tail = seen;
      } else if (lag < 0) {
        Atomics.add(words, REFUSALS, 1);
        return false;
      } else {
        tail = Atomics.load(words, TAIL);
      }
    }
  }

  /** Consumer only. The next message, or null when there is none. Records of unknown kind are skipped. */
  pop(): Message | null {
    const words = this.#words;
    for (;;) {
      const head = this.#head;
      const at = HEADER_WORDS + (head & (this.capacity - 1)) * RECORD_WORDS;
      // Pairs with the producer's publishing store.
      if (((Atomics.load(words, at + SEQUENCE) - (head + 1)) | 0) !== 0) return null;
      const message = decodeMessage(words, at);
      this.#head = (head + 1) | 0;
      Atomics.store(words, HEAD, this.#head);
      // Hands the record back to producers; pairs with their load of the sequence.
      Atomics.store(words, at + SEQUENCE, (head + this.capacity) | 0);
      if (message !== null) return message;
    }
  }

  /** Consumer only: the next record is published, so `pop` would take it. */
  readable(): boolean {
    const at = HEADER_WORDS + (this.#head & (this.capacity - 1)) * RECORD_WORDS;
    return ((Atomics.load(this.#words, at + SEQUENCE) - (this.#head + 1)) | 0) === 0;
  }

  /** Consumer only, after a producer died: gives up one record that was claimed and never published. True if there was one. */
  skipHole(): boolean {
    const words = this.#words;
    const head = this.#head;
    const at = HEADER_WORDS + (head & (this.capacity - 1)) * RECORD_WORDS;
    if (
      Atomics.load(words, TAIL) === head ||
      ((Atomics.load(words, at + SEQUENCE) - head) | 0) !== 0
    )
      return false;
    this.#head = (head + 1) | 0;
    Atomics.store(words, HEAD, this.#head);
    Atomics.store(words, at + SEQUENCE, (head + this.capacity) | 0);
    return true;
  }

  /** Records that producers have claimed and the consumer has not taken. Any thread; a hint. */
  size(): number {
    return (Atomics.load(this.#words, TAIL) - Atomics.load(this.#words, HEAD)) | 0;
  }
  room(): number {
    return this.capacity - this.size();
  }
  refusals(): number {
    return Atomics.load(this.#words, REFUSALS);
  }

  /** Consumer: about to sleep. Returns true when it may sleep, false when something has come meanwhile. */
  arm(): boolean {
    Atomics.store(this.#words, SLEEP, 1);
    if (this.size() === 0) return true;
    Atomics.store(this.#words, SLEEP, 0);
    return false;
  }
  disarm(): void {
    Atomics.store(this.#words, SLEEP, 0);
  }
  /** Producer, after `push`: true when the consumer sleeps and this caller has to wake it. Pairs with `arm`. */
  claimWake(): boolean {
    return (
      Atomics.load(this.#words, SLEEP) === 1 &&
      Atomics.compareExchange(this.#words, SLEEP, 1, 0) === 1
    );
  }
  /** Consumer thread that has no event loop to wake: waits on the sleep word; producers use `notify` after `claimWake`. */
  wait(timeoutMs: number): void {
    if (this.arm()) Atomics.wait(this.#words, SLEEP, 1, timeoutMs);
    this.disarm();
  }
  /** Pairs with `wait`. */
  notify(): void {
    Atomics.notify(this.#words, SLEEP, 1);
  }
}
