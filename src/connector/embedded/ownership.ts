import { MooncakeKvError } from "../../errors.ts";

/** Which thread drives the scheduler side of a runtime: one word in shared memory, its threadId plus 1, 0 for none. */
export class Ownership {
  readonly #word: Int32Array;
  readonly #mine: number;

  constructor(word: Int32Array, threadId: number) {
    this.#word = word;
    this.#mine = threadId + 1;
  }

  /** Throws WRONG_THREAD when another attachment holds the word. */
  take(): void {
    // Pairs with the compareExchange in `release` and in `releaseEndedOwner`: one thread at a time.
    const owner = Atomics.compareExchange(this.#word, 0, 0, this.#mine);
    if (owner !== 0) throw wrongThread(owner - 1);
  }

  /** Throws CLOSED after `release`, WRONG_THREAD when another thread has attached since. */
  check(): void {
    // Pairs with the compareExchange of whoever attaches or lets go.
    const owner = Atomics.load(this.#word, 0);
    if (owner === this.#mine) return;
    throw owner === 0 ? detached() : wrongThread(owner - 1);
  }

  held(): boolean {
    // Pairs as in `check`.
    return Atomics.load(this.#word, 0) === this.#mine;
  }

  release(): void {
    // Pairs with the compareExchange of the next thread that attaches.
    Atomics.compareExchange(this.#word, 0, this.#mine, 0);
  }
}

/**
 * Frees the word of a thread that has ended without letting go. Call only once it has (its Worker has emitted "exit"): two
 * threads that drive one scheduler side destroy the tables. False: that thread does not hold the word.
 */
export function releaseEndedOwner(word: Int32Array, threadId: number): boolean {
  // Pairs with the compareExchange of the next thread that attaches.
  return Atomics.compareExchange(word, 0, threadId + 1, 0) === threadId + 1;
}

function wrongThread(owner: number): MooncakeKvError {
  return new MooncakeKvError({
    code: "WRONG_THREAD",
    field: "connector",
    value: owner,
    problem: "the scheduler side belongs to the thread that attached it",
    remedy: "Call it from that thread only, or detach there first.",
  });
}

function detached(): MooncakeKvError {
  return new MooncakeKvError({
    code: "CLOSED",
    field: "connector",
    problem: "is detached",
    remedy: "Attach a new connector to the runtime.",
  });
}
