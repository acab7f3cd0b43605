import { NONE } from "../../blocks/layout.ts";
import { OUTCOME_NONE } from "../messages.ts";

/** Waits for hashes. */
export const RECORD_HASHING = 1;
/** Asks the engine. */
export const RECORD_ASKING = 2;

/**
 * Lookups in hand, as plain arrays by record number. A request may have several: one live and those that were given up and
 * wait for their batches. A record is free when its `lookupDone` is sent.
 */
export class LookupRecords {
  readonly capacity: number;
  readonly slot: Int32Array;
  readonly generation: Int32Array;
  readonly attempt: Int32Array;
  readonly tokens: Int32Array;
  readonly phase: Uint8Array;
  readonly discarded: Uint8Array;
  /** Hash blocks that must be there first. */
  readonly hashBlocks: Int32Array;
  /** Keys asked so far and in all; the first one that makes those behind it not worth asking for, or NONE. */
  readonly nextKey: Int32Array;
  readonly endKey: Int32Array;
  readonly decidingKey: Int32Array;
  readonly inFlight: Int32Array;
  /** OUTCOME_ code of an engine failure, or OUTCOME_NONE; and the first key that the engine could not tell of. */
  readonly failure: Uint8Array;
  readonly failedKey: Int32Array;
  readonly beganMs: Float64Array;
  readonly #free: Int32Array;
  #freeCount: number;
  readonly #firstOfSlot: Int32Array;
  readonly #next: Int32Array;

  constructor(capacity: number, requestSlots: number) {
    const int32 = (): Int32Array => new Int32Array(capacity);
    this.capacity = capacity;
    this.slot = int32();
    this.generation = int32();
    this.attempt = int32();
    this.tokens = int32();
    this.phase = new Uint8Array(capacity);
    this.discarded = new Uint8Array(capacity);
    this.hashBlocks = int32();
    this.nextKey = int32();
    this.endKey = int32();
    this.decidingKey = int32();
    this.inFlight = int32();
    this.failure = new Uint8Array(capacity);
    this.failedKey = int32();
    this.beganMs = new Float64Array(capacity);
    this.#free = Int32Array.from({ length: capacity }, (_, index) => capacity - 1 - index);
    this.#freeCount = capacity;
    this.#firstOfSlot = new Int32Array(requestSlots).fill(NONE);
    this.#next = int32().fill(NONE);
  }

  get used(): number {
    return this.capacity - this.#freeCount;
  }
  first(slot: number): number {
    return this.#firstOfSlot[slot]!;
  }
  after(record: number): number {
    return this.#next[record]!;
  }

  find(slot: number, generation: number, attempt: number): number {
    for (let record = this.first(slot); record !== NONE; record = this.after(record))
      if (this.attempt[record] === attempt && this.generation[record] === generation) return record;
    return NONE;
  }

  /** A record in phase HASHING, or NONE when all are in use. */
  open(slot: number, generation: number, attempt: number, tokens: number): number {
    if (this.#freeCount === 0) return NONE;
    const record = this.#free[--this.#freeCount]!;
    this.slot[record] = slot;
    this.generation[record] = generation;
    this.attempt[record] = attempt;
    this.tokens[record] = tokens;
    this.phase[record] = RECORD_HASHING;
    this.discarded[record] = 0;
    this.nextKey[record] = 0;
    this.endKey[record] = 0;
    this.decidingKey[record] = NONE;
    this.inFlight[record] = 0;
    this.failure[record] = OUTCOME_NONE;
    this.failedKey[record] = NONE;
    this.#next[record] = this.#firstOfSlot[slot]!;
    this.#firstOfSlot[slot] = record;
    return record;
  }

  close(record: number): void {
    const slot = this.slot[record]!;
    let previous = NONE;
    for (let at = this.first(slot); at !== record; at = this.after(at)) previous = at;
    if (previous === NONE) this.#firstOfSlot[slot] = this.#next[record]!;
    else this.#next[previous] = this.#next[record]!;
    this.phase[record] = 0;
    this.#free[this.#freeCount++] = record;
  }

  failed(record: number, outcome: number, key: number): void {
    this.failure[record] = outcome;
    const known = this.failedKey[record]!;
    if (known === NONE || key < known) this.failedKey[record] = key;
  }
  decided(record: number, key: number): void {
    const known = this.decidingKey[record]!;
    if (known === NONE || key < known) this.decidingKey[record] = key;
  }
  /** The engine could not tell of a key that decides the answer: none before it settles the matter. */
  undecided(record: number): boolean {
    if (this.failure[record] === OUTCOME_NONE) return false;
    return this.decidingKey[record] === NONE || this.failedKey[record]! < this.decidingKey[record]!;
  }

  inUse(record: number): boolean {
    return this.phase[record] !== 0;
  }

  /** The engine has to be asked for more. */
  hasMore(record: number): boolean {
    return (
      this.phase[record] === RECORD_ASKING &&
      this.discarded[record] === 0 &&
      this.failure[record] === OUTCOME_NONE &&
      this.decidingKey[record] === NONE &&
      this.nextKey[record]! < this.endKey[record]!
    );
  }
}
