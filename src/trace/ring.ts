import { TRACE_EVENTS } from "./events.ts";
import type { TraceEventName, TraceWriter } from "./events.ts";
import { MooncakeKvError } from "../errors.ts";

/**
 * A bounded trace ring in shared memory: one writing thread, one reading thread, records of 8 Int32 words.
 *
 * When the reader is behind, NEW records are dropped and counted; nothing is ever overwritten. A record that is published
 * is therefore stable until the reader has taken it: the reader needs no second look, no record can be torn, and the loss
 * is one plain counter of the writer, exact by construction. Overwriting the oldest instead would need a check of every
 * record after reading it and could only estimate the loss. What is kept is also more useful: begins whose ends follow.
 *
 * Positions count records, wrap at 32 bits and are only compared by difference. Writer and reader words lie on lines of
 * their own. A successor of a dead actor makes a new writer over the same ring; the record that the dead thread had not
 * published does not exist.
 */
const TAIL_WORD = 0;
const LOST_WORD = 1;
const HEAD_WORD = 16;
const HEADER_WORDS = 32;
export const TRACE_RECORD_WORDS = 8;

const RECORD_EVENT = 0;
const RECORD_SLOT = 1;
const RECORD_GENERATION = 2;
const RECORD_FIRST = 3;
const RECORD_SECOND = 4;
const RECORD_TIME_LOW = 5;
const RECORD_TIME_HIGH = 6;
const RECORD_EPOCH = 7;
const TWO_TO_32 = 4294967296;

/** One trace record as the reader sees it. `event` is the number of a description in TRACE_EVENTS. */
export interface TraceRecord {
  event: number;
  /** NONE for events without a request. */
  slot: number;
  generation: number;
  first: number;
  second: number;
  /** Since the common origin of all rings. */
  microseconds: number;
  /** Of the recording actor. */
  epoch: number;
}

/** Shared memory of a ring for `records` records (a power of two). Zeroed memory is a valid empty ring. */
export function createTraceRing(records: number): SharedArrayBuffer {
  if (
    !Number.isInteger(records) ||
    records < 2 ||
    records > 2 ** 24 ||
    (records & (records - 1)) !== 0
  ) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "trace ring records",
      value: records,
      problem: "must be a power of two from 2 to 16777216",
      remedy: "Use 4096 unless events are lost.",
    });
  }
  return new SharedArrayBuffer((HEADER_WORDS + records * TRACE_RECORD_WORDS) * 4);
}

/** Records events of one actor; used by its thread only. Never waits and allocates nothing. */
export class RingTraceWriter implements TraceWriter {
  readonly #words: Int32Array;
  readonly #mask: number;
  readonly #epoch: number;
  readonly #nowMicroseconds: () => number;
  #tail: number;
  #head: number;
  #lost: number;

  /** `nowMicroseconds` counts from the origin that all rings of the runtime share (hosts/thread-trace.ts). */
  constructor(ring: SharedArrayBuffer, epoch: number, nowMicroseconds: () => number) {
    this.#words = new Int32Array(ring);
    this.#mask = (this.#words.length - HEADER_WORDS) / TRACE_RECORD_WORDS - 1;
    this.#epoch = epoch;
    this.#nowMicroseconds = nowMicroseconds;
    // Pair with the stores of a predecessor that has ended: its successor goes on where it stopped.
    this.#tail = Atomics.load(this.#words, TAIL_WORD);
    this.#lost = Atomics.load(this.#words, LOST_WORD);
    // Pairs with the reader's store in `drain`.
    this.#head = Atomics.load(this.#words, HEAD_WORD);
  }

  record(
    event: TraceEventName,
    slot: number,
    generation: number,
    first: number,
    second: number,
  ): void {
    const words = this.#words;
    const tail = this.#tail;
    if (((tail - this.#head) | 0) > this.#mask) {
      // Full as far as known. Pairs with the reader's store in `drain`: what lies before the head may be written again.
      this.#head = Atomics.load(words, HEAD_WORD);
      if (((tail - this.#head) | 0) > this.#mask) {
        this.#lost = (this.#lost + 1) | 0;
        // Pairs with the reader's load in `drain`.
        Atomics.store(words, LOST_WORD, this.#lost);
        return;
      }
    }
    const at = HEADER_WORDS + (tail & this.#mask) * TRACE_RECORD_WORDS;
    const microseconds = Math.max(0, Math.floor(this.#nowMicroseconds()));
    words[at + RECORD_EVENT] = TRACE_EVENTS[event].number;
    words[at + RECORD_SLOT] = slot;
    words[at + RECORD_GENERATION] = generation;
    words[at + RECORD_FIRST] = first;
    words[at + RECORD_SECOND] = second;
    // Storing to an Int32Array takes the number modulo 2^32, which is the low word.
    words[at + RECORD_TIME_LOW] = microseconds;
    words[at + RECORD_TIME_HIGH] = Math.floor(microseconds / TWO_TO_32);
    words[at + RECORD_EPOCH] = this.#epoch;
    this.#tail = (tail + 1) | 0;
    // Publishes the record; pairs with the reader's load of the tail in `drain`.
    Atomics.store(words, TAIL_WORD, this.#tail);
  }
}

/** Takes records out of one ring; used by one thread only. */
export class TraceRingReader {
  readonly #words: Int32Array;
  readonly #mask: number;
  readonly #record: TraceRecord = {
    event: 0,
    slot: 0,
    generation: 0,
    first: 0,
    second: 0,
    microseconds: 0,
    epoch: 0,
  };
  #lostWord = 0;
  #lost = 0;

  constructor(ring: SharedArrayBuffer) {
    this.#words = new Int32Array(ring);
    this.#mask = (this.#words.length - HEADER_WORDS) / TRACE_RECORD_WORDS - 1;
  }

  /**
   * Visits what was published before the call, oldest first, at most one ring full, and gives the room back. The record
   * object is reused: a visitor copies what it keeps. Returns the number of records. When `visit` throws, the record it
   * was given and the ones before it count as taken.
   */
  drain(visit: (record: Readonly<TraceRecord>) => void): number {
    const words = this.#words;
    const record = this.#record;
    // Pairs with this reader's own store when it gives records back.
    const start = Atomics.load(words, HEAD_WORD);
    // Pairs with the writer's publishing store in `record`.
    const tail = Atomics.load(words, TAIL_WORD);
    let head = start;
    try {
      while (head !== tail) {
        const at = HEADER_WORDS + (head & this.#mask) * TRACE_RECORD_WORDS;
        record.event = words[at + RECORD_EVENT]!;
        record.slot = words[at + RECORD_SLOT]!;
        record.generation = words[at + RECORD_GENERATION]!;
        record.first = words[at + RECORD_FIRST]!;
        record.second = words[at + RECORD_SECOND]!;
        record.microseconds =
          words[at + RECORD_TIME_HIGH]! * TWO_TO_32 + (words[at + RECORD_TIME_LOW]! >>> 0);
        record.epoch = words[at + RECORD_EPOCH]!;
        head = (head + 1) | 0;
        visit(record);
      }
    } finally {
      // Gives the room back; pairs with the writer's load of the head in `record`.
      Atomics.store(words, HEAD_WORD, head);
    }
    this.lost();
    return (head - start) | 0;
  }

  /** Events dropped since the ring was made; exact as long as fewer than 2^32 are lost between two calls. */
  lost(): number {
    // Pairs with the writer's store of the count in `record`.
    const word = Atomics.load(this.#words, LOST_WORD);
    this.#lost += (word - this.#lostWord) >>> 0;
    this.#lostWord = word;
    return this.#lost;
  }
}
