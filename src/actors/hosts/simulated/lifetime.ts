import { withMortalAtomics } from "./mortal-atomics.ts";

/** Thrown out of the place where an actor dies, as a terminated thread ends between two stores. */
class SimulatedDeath extends Error {}

/**
 * How many places where it may die an actor has yet to pass: context calls that others see (mortal-context.ts, mortal-channel.ts)
 * and, while a death is due, operations on shared words (mortal-atomics.ts).
 *
 * A terminated thread runs nothing after its death, but here `catch` and `finally` of the actor's code do. So every further place
 * throws too, and what they store without passing one is undone.
 */
export class Lifetime {
  readonly #shared: readonly Int32Array[];
  #sharedAtDeath: readonly Int32Array[] = [];
  #left = Infinity;
  #outside = false;

  /** `shared`: all that the actor writes and that is still there after its death. */
  constructor(shared: readonly Int32Array[]) {
    this.#shared = shared;
  }

  /** The actor dies at its `places`-th place from here; Infinity: it does not. */
  endAfter(places: number): void {
    this.#left = places;
  }

  /** Runs code of the actor; false: it died in it, whatever the code made of that. */
  live(run: () => void): boolean {
    try {
      if (this.#left === Infinity) run();
      else withMortalAtomics(this.pass, run);
    } catch (error) {
      if (this.#left > 0) throw error;
    }
    if (this.#left > 0) return true;
    for (const [index, words] of this.#sharedAtDeath.entries()) this.#shared[index]!.set(words);
    return false;
  }

  /** The actor is at a place where it may die. */
  readonly pass = (): void => {
    if (this.#outside || --this.#left > 0) return;
    if (this.#left === 0) this.#sharedAtDeath = this.#shared.map((words) => words.slice());
    throw new SimulatedDeath();
  };

  /** Runs code of the host inside a call of the actor: its operations on shared words are not the actor's. */
  outside<Result>(run: () => Result): Result {
    this.#outside = true;
    try {
      return run();
    } finally {
      this.#outside = false;
    }
  }
}
