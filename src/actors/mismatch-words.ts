import { HASH_STRIDE_WORDS } from "../blocks/layout.ts";
import type { SizeMismatch } from "./loader/size-evidence.ts";
import { CONTROL_MEMBERSHIP_WORD, CONTROL_MISMATCH_WORD } from "./plan.ts";
import { MEMBERSHIP_CLOSED, MEMBERSHIP_OPEN } from "../connector/membership.ts";

const WANTED_BYTES = 1;
const FOUND_BYTES = 2;
const PREFIX = 3;
const DIGEST = 4;

/**
 * Control words by which the loader tells everybody that values of another size lie under our keys: in effect at once on all threads,
 * whatever the runtime's thread does, and through deaths of any actor.
 */
export class MismatchWords {
  readonly #words: Int32Array;

  /** `control`: the runtime's control words (plan.ts). */
  constructor(control: SharedArrayBuffer) {
    this.#words = new Int32Array(control, CONTROL_MISMATCH_WORD * 4, DIGEST + HASH_STRIDE_WORDS);
  }

  publish({ wantedBytes, foundBytes, prefix, digest }: SizeMismatch): void {
    const words = this.#words;
    // Pairs with `clear` of the runtime's thread: what is there already stays.
    if (Atomics.load(words, 0) !== 0) return;
    words[WANTED_BYTES] = wantedBytes;
    words[FOUND_BYTES] = foundBytes;
    words[PREFIX] = prefix;
    words.set(digest, DIGEST);
    // Pairs with the loads of readMembership and of the runtime's thread: what belongs to it is written by then.
    Atomics.store(words, 0, 1);
  }

  /** null: none. */
  read(): SizeMismatch | null {
    const words = this.#words;
    // Pairs with the loader's store: the words behind it are whole.
    if (Atomics.load(words, 0) === 0) return null;
    return {
      wantedBytes: words[WANTED_BYTES]!,
      foundBytes: words[FOUND_BYTES]!,
      prefix: words[PREFIX]!,
      digest: words.slice(DIGEST, DIGEST + HASH_STRIDE_WORDS),
    };
  }

  clear(): void {
    // Pairs with readMembership: the pool is open again.
    Atomics.store(this.#words, 0, 0);
  }
}

/** A MEMBERSHIP_ number: what the runtime's thread has published, and closed while values of another size lie under our keys. */
export function readMembership(control: Int32Array): number {
  // Pairs with the stores of the runtime's thread and of the loader.
  const membership = Atomics.load(control, CONTROL_MEMBERSHIP_WORD);
  const mismatched = Atomics.load(control, CONTROL_MISMATCH_WORD) !== 0;
  return membership === MEMBERSHIP_OPEN && mismatched ? MEMBERSHIP_CLOSED : membership;
}
