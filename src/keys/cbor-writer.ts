/**
 * Canonical CBOR as vLLM's `cbor2.dumps(..., canonical=True)` writes it for block hashes: definite lengths, shortest
 * integers. Only the types that block hashes use: integers, byte strings, texts, arrays, null.
 *
 * One writer is reused for many values, so hashing a prompt allocates no buffer per block. Not for use by two threads.
 */
import { MooncakeKvError } from "../errors.ts";

const MAJOR_UNSIGNED = 0x00;
const MAJOR_NEGATIVE = 0x20;
const MAJOR_BYTES = 0x40;
const MAJOR_TEXT = 0x60;
const MAJOR_ARRAY = 0x80;
const NULL = 0xf6;
const TWO_POW_32 = 0x1_0000_0000;

export class CborWriter {
  #bytes: Uint8Array;
  #length = 0;
  readonly #encoder = new TextEncoder();

  constructor(initialBytes = 1024) {
    this.#bytes = new Uint8Array(Math.max(16, initialBytes));
  }

  /** Forgets what was written and keeps the memory. */
  reset(): void {
    this.#length = 0;
  }

  /** What was written: a view that the next `reset` or write invalidates. */
  view(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** What was written, as the caller's own copy. */
  copy(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }

  null(): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = NULL;
  }

  /** An integer between -2^53 and 2^53. Throws INVALID_VALUE for anything else. */
  integer(value: number): void {
    if (!Number.isSafeInteger(value)) {
      throw new MooncakeKvError({
        code: "INVALID_VALUE",
        field: "block hash input",
        value,
        problem: "is not an integer that can be encoded exactly",
        remedy: "Give token ids and offsets as whole numbers.",
      });
    }
    if (value >= 0) this.#head(MAJOR_UNSIGNED, value);
    else this.#head(MAJOR_NEGATIVE, -1 - value);
  }

  /** Starts an array: the next `count` values written are its elements. */
  array(count: number): void {
    this.#head(MAJOR_ARRAY, count);
  }

  bytes(value: Uint8Array): void {
    this.#head(MAJOR_BYTES, value.length);
    this.raw(value);
  }

  /** Throws INVALID_VALUE for half a surrogate pair: it has no UTF-8 form, and a replacement would let two texts collide. */
  text(value: string): void {
    if (!value.isWellFormed()) {
      throw new MooncakeKvError({
        code: "INVALID_VALUE",
        field: "block hash input",
        value,
        problem: "the text holds half a surrogate pair, which UTF-8 cannot carry",
        remedy: "Correct the salt, name or identifier.",
      });
    }
    const encoded = this.#encoder.encode(value);
    this.#head(MAJOR_TEXT, encoded.length);
    this.raw(encoded);
  }

  /** Bytes that are CBOR already. */
  raw(value: Uint8Array): void {
    this.#reserve(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
  }

  /** The major type with its argument in the shortest form. */
  #head(major: number, argument: number): void {
    this.#reserve(9);
    const bytes = this.#bytes;
    if (argument < 24) {
      bytes[this.#length++] = major | argument;
      return;
    }
    const width = argument < 0x100 ? 1 : argument < 0x1_0000 ? 2 : argument < TWO_POW_32 ? 4 : 8;
    bytes[this.#length++] = major | (width === 1 ? 24 : width === 2 ? 25 : width === 4 ? 26 : 27);
    let rest = argument;
    for (let position = this.#length + width - 1; position >= this.#length; position--) {
      bytes[position] = rest % 256;
      rest = Math.floor(rest / 256);
    }
    this.#length += width;
  }

  #reserve(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.view());
    this.#bytes = grown;
  }
}
