import { brokenInvariant } from "../../errors.ts";
import { ACTOR_COUNT, type Message } from "../messages.ts";
import { decodeMessage, encodeMessage, RECORD_WORDS } from "./codec.ts";

/**
 * A bounded mailbox in shared memory: many producers, one consumer (a Vyukov queue of 64-byte records).
 *
 * Word 15 of record i starts as i. A producer claims position p by moving TAIL from p to p + 1 when the record's sequence is
 * p, fills it, and publishes with sequence = p + 1. The consumer takes position h when the sequence is h + 1 and gives the
 * record back with sequence = h + capacity. Positions wrap at 32 bits; only differences are compared.
 *
 * Death of a producer between claim and publish would leave a record that never becomes readable, a hole, and stop the queue.
 * So each producer writes the position that it is about to claim into its own INTENT word first. The consumer passes over a
 * record that is claimed, unpublished and in no INTENT word. That is exact, without waiting and without guessing: whoever
 * still fills a record has its position there, and a dead producer's word is cleared (`producerDied`) when its thread has
 * ended and can write no more, or by its successor's next push. A live producer is never passed over, so nobody ever writes
 * into a record that somebody else has got.
 *
 * Death of the consumer between its two stores leaves a record that is given back and a HEAD that still points at it; the
 * successor moves on.
 *
 * Sleep protocol: the consumer sets SLEEP, looks once more, and only then sleeps. A producer that published and finds SLEEP
 * set claims it with one compareExchange; the winner alone pays for the wake.
 */
const TAIL = 0;
const HEAD = 16;
const SLEEP = 32;
const REFUSALS = 48;
const HOLES = 49;
/** One cache line each: a producer's INTENT is written at every push. */
const INTENTS = 64;
const INTENT_WORDS = 16;
const PRODUCERS = ACTOR_COUNT;
const HEADER_WORDS = INTENTS + PRODUCERS * INTENT_WORDS;
const SEQUENCE = RECORD_WORDS - 1;
/** How long a thread without an event loop sleeps when the next record is claimed and not published yet. */
const UNPUBLISHED_WAIT_MS = 1;

export function mailboxWords(capacity: number): number {
  return HEADER_WORDS + capacity * RECORD_WORDS;
}

export class Mailbox {
  readonly capacity: number;
  readonly #words: Int32Array;
  readonly #intent: number;
  #head: number;

  /**
   * `words` must be `mailboxWords(capacity)` long and initialised once by `Mailbox.initialise`. Capacity: a power of two.
   * `producer`: the number under which the calling thread pushes, its ACTOR_ number; no two threads that live at a time may
   * share one. A thread that only reads, or that is the only one at all (simulator), may leave it out.
   */
  constructor(words: Int32Array, producer = 0) {
    if (!(producer >= 0 && producer < PRODUCERS)) brokenInvariant("no such producer", producer);
    this.#words = words;
    this.capacity = (words.length - HEADER_WORDS) / RECORD_WORDS;
    this.#intent = INTENTS + producer * INTENT_WORDS;
    // Pairs with the former consumer's store; a value that is behind is made up for by `pop`.
    this.#head = Atomics.load(words, HEAD);
  }

  static initialise(words: Int32Array): void {
    const capacity = (words.length - HEADER_WORDS) / RECORD_WORDS;
    for (let index = 0; index < capacity; index++)
      words[HEADER_WORDS + index * RECORD_WORDS + SEQUENCE] = index;
    // No position in use: the one before the first.
    for (let producer = 0; producer < PRODUCERS; producer++)
      words[INTENTS + producer * INTENT_WORDS] = -1;
  }

  /** Any thread, under its own producer number. False when the mailbox is full; the refusal is counted. */
  push(message: Message): boolean {
    const words = this.#words;
    // Pairs with other producers' compareExchange.
    let tail = Atomics.load(words, TAIL);
    for (;;) {
      const at = this.#record(tail);
      // Pairs with the consumer's store in `#giveBack`: the record is free again.
      const lag = (Atomics.load(words, at + SEQUENCE) - tail) | 0;
      if (lag === 0) {
        // Before the claim, so that the consumer never sees a claim of a live producer without it. Pairs with `#passHole`.
        Atomics.store(words, this.#intent, tail);
        // Pairs with other producers' compareExchange and with the consumer's load: one of them gets the position.
        const seen = Atomics.compareExchange(words, TAIL, tail, (tail + 1) | 0);
        if (seen === tail) {
          encodeMessage(words, at, message);
          // Publishes the record; pairs with the load in `pop`. The intent may stay: the record is no hole any more.
          Atomics.store(words, at + SEQUENCE, (tail + 1) | 0);
          return true;
        }
        tail = seen;
      } else if (lag < 0) {
        // An intent that lost its claim must not make a dead winner's hole look like ours for ever.
        this.#clear(this.#intent);
        // Pairs with the load in `refusals`.
        Atomics.add(words, REFUSALS, 1);
        return false;
      } else {
        // Pairs with the compareExchange of the producer that was faster.
        tail = Atomics.load(words, TAIL);
      }
    }
  }

  /**
   * Supervisor, once the producer's thread has ended and before its successor starts: a record that it had claimed and not
   * published becomes a hole, which the consumer's next `pop` passes over.
   */
  producerDied(producer: number): void {
    this.#clear(INTENTS + producer * INTENT_WORDS);
  }

  /** Consumer only. The next message, or null when there is none. Records of unknown kind are skipped. */
  pop(): Message | null {
    const words = this.#words;
    for (;;) {
      const head = this.#head;
      const at = this.#record(head);
      // Pairs with the producer's publishing store.
      const lead = (Atomics.load(words, at + SEQUENCE) - head) | 0;
      if (lead === 1) {
        const message = decodeMessage(words, at);
        this.#giveBack(head, at);
        if (message !== null) return message;
      } else if (lead > 1) {
        // A predecessor gave the record back and died before it moved on.
        this.#advance(head);
      } else if (!this.#passHole(head, at)) return null;
    }
  }

  /** Consumer only: the next record is published, so `pop` would take it. */
  readable(): boolean {
    // Pairs with the producer's publishing store.
    const sequence = Atomics.load(this.#words, this.#record(this.#head) + SEQUENCE);
    return ((sequence - (this.#head + 1)) | 0) === 0;
  }

  /** True: look at the head again. False: nothing is claimed, or a live producer is at it. */
  #passHole(head: number, at: number): boolean {
    const words = this.#words;
    // Pairs with the producers' compareExchange: with the claim we see the claimer's intent, which was stored before it.
    if (Atomics.load(words, TAIL) === head) return false;
    for (let producer = 0; producer < PRODUCERS; producer++)
      if (Atomics.load(words, INTENTS + producer * INTENT_WORDS) === head) return false;
    // Published before its producer went on to another position: no hole. Pairs with the publishing store.
    if (Atomics.load(words, at + SEQUENCE) !== head) return true;
    Atomics.add(words, HOLES, 1);
    this.#giveBack(head, at);
    return true;
  }

  #giveBack(head: number, at: number): void {
    // Hands the record back to producers; pairs with their load of the sequence. First, so that a death in between leaves no
    // record that nobody can claim.
    Atomics.store(this.#words, at + SEQUENCE, (head + this.capacity) | 0);
    this.#advance(head);
  }
  #advance(head: number): void {
    this.#head = (head + 1) | 0;
    // Pairs with the loads of `size` and with a successor's constructor.
    Atomics.store(this.#words, HEAD, this.#head);
  }
  #clear(intent: number): void {
    // A position that was taken: nobody waits for it. Pairs with the load in `#passHole`.
    Atomics.store(this.#words, intent, (Atomics.load(this.#words, HEAD) - 1) | 0);
  }
  #record(position: number): number {
    return HEADER_WORDS + (position & (this.capacity - 1)) * RECORD_WORDS;
  }

  /** Records that producers have claimed and the consumer has not taken. Any thread; a hint. */
  size(): number {
    // Pairs with the producers' compareExchange and the consumer's store of HEAD.
    return (Atomics.load(this.#words, TAIL) - Atomics.load(this.#words, HEAD)) | 0;
  }
  room(): number {
    return this.capacity - this.size();
  }
  refusals(): number {
    // Pairs with the producers' add.
    return Atomics.load(this.#words, REFUSALS);
  }
  /** Records that were passed over because their producer died. */
  holes(): number {
    // Pairs with the consumer's count of what it passed over.
    return Atomics.load(this.#words, HOLES);
  }

  /** Consumer: about to sleep. Returns true when it may sleep, false when something has come meanwhile. */
  arm(): boolean {
    // Pairs with `claimWake`: a producer that publishes after the look below finds SLEEP set.
    Atomics.store(this.#words, SLEEP, 1);
    if (this.size() === 0) return true;
    Atomics.store(this.#words, SLEEP, 0);
    return false;
  }
  disarm(): void {
    // Pairs with `claimWake`: nobody need wake this thread.
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
    // Pairs with `notify`.
    if (this.arm()) Atomics.wait(this.#words, SLEEP, 1, timeoutMs);
    // Nobody notifies while SLEEP is 0, so this is a short sleep until the record is published, or is known to be a hole.
    else if (!this.readable())
      Atomics.wait(this.#words, SLEEP, 0, Math.min(timeoutMs, UNPUBLISHED_WAIT_MS));
    this.disarm();
  }
  /** Pairs with `wait`. */
  notify(): void {
    Atomics.notify(this.#words, SLEEP, 1);
  }
}
