import {
  LOOKUP_IDLE,
  lookupAttempt,
  lookupState,
  lookupWord,
  NONE,
  REQUEST_HIT_TOKENS,
  REQUEST_LOOKUP_WORD,
  REQUEST_TAIL_TOKENS,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";

/** Writes answers into the request table. Only the newest question of a slot has an answer there; older ones are done. */
export class Answers {
  readonly #tables: Tables;
  readonly #newest: Int32Array;
  readonly #answered: Int32Array;

  constructor(tables: Tables) {
    this.#tables = tables;
    this.#newest = new Int32Array(tables.dimensions.requestSlots).fill(NONE);
    this.#answered = new Int32Array(tables.dimensions.requestSlots).fill(NONE);
  }

  asked(slot: number, attempt: number): void {
    const newest = this.#newest[slot]!;
    // Attempts count up in 16 bits; after a restart an older message may come after the table was read.
    if (newest === NONE || (attempt - newest) << 16 > 0) this.#newest[slot] = attempt;
  }
  /** This incarnation has answered the attempt already. */
  answered(slot: number, attempt: number): boolean {
    return this.#answered[slot] === attempt;
  }

  /** `state` LOOKUP_IDLE: given up, which is no answer, but a successor need not ask again. */
  publish(
    slot: number,
    attempt: number,
    epoch: number,
    state: number,
    hit: number,
    tails: readonly number[] = [],
  ): void {
    if (this.#newest[slot] !== attempt) return;
    const words = this.#tables.requests;
    const at = this.#tables.request(slot);
    this.#answered[slot] = attempt;
    words[at + REQUEST_HIT_TOKENS] = hit;
    for (let group = 0; group < tails.length; group++)
      words[at + REQUEST_TAIL_TOKENS + group] = tails[group]!;
    // Publishes the answer; pairs with the scheduler side's readLookup.
    Atomics.store(words, at + REQUEST_LOOKUP_WORD, lookupWord(attempt, epoch, state));
    // A serving loop without lookup_async waits on this very word.
    Atomics.notify(words, at + REQUEST_LOOKUP_WORD);
  }

  /** What a predecessor left: true when the attempt has a word of its own. */
  published(slot: number, attempt: number): boolean {
    return lookupAttempt(this.#word(slot)) === attempt && this.#word(slot) !== 0;
  }
  givenUp(slot: number): boolean {
    return lookupState(this.#word(slot)) === LOOKUP_IDLE;
  }

  #word(slot: number): number {
    // Pairs with the store of a dead predecessor in `publish`.
    return Atomics.load(this.#tables.requests, this.#tables.request(slot) + REQUEST_LOOKUP_WORD);
  }
}
