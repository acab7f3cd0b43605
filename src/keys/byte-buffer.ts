import { MooncakeKvError } from "../errors.ts";

/** Bytes that grow at their end; `reset` keeps the memory, so hashing a prompt allocates no buffer per block. */
export class ByteBuffer {
  #bytes: Uint8Array;
  #length = 0;
  readonly #encoder = new TextEncoder();

  constructor(initialBytes: number) {
    this.#bytes = new Uint8Array(Math.max(16, initialBytes));
  }

  get length(): number {
    return this.#length;
  }
  reset(): void {
    this.#length = 0;
  }
  /** A view that the next write or `reset` invalidates. */
  view(from = 0): Uint8Array {
    return this.#bytes.subarray(from, this.#length);
  }
  copy(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }
  raw(value: Uint8Array): void {
    this.#reserve(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
  }
  /** A whole number from 0 up in `width` bytes. */
  unsigned(value: number, width: number, littleEndian: boolean): void {
    this.#reserve(width);
    let rest = value;
    for (let index = 0; index < width; index++) {
      this.#bytes[this.#length + (littleEndian ? index : width - 1 - index)] = rest % 256;
      rest = Math.floor(rest / 256);
    }
    this.#length += width;
  }
  /** Takes out `count` bytes at `at`. */
  remove(at: number, count: number): void {
    this.#bytes.copyWithin(at, at + count, this.#length);
    this.#length -= count;
  }
  set(at: number, value: Uint8Array): void {
    this.#bytes.set(value, at);
  }

  /** UTF-8. Throws INVALID_VALUE for half a surrogate pair: a replacement would let two texts collide. */
  encode(value: string): Uint8Array {
    if (value.isWellFormed()) return this.#encoder.encode(value);
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "block hash input",
      value,
      problem: "the text holds half a surrogate pair, which UTF-8 cannot carry",
      remedy: "Correct the salt, name or identifier.",
    });
  }

  #reserve(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.view());
    this.#bytes = grown;
  }
}

/** Throws INVALID_VALUE for a number that is no exact integer. */
export function checkInteger(value: number): void {
  if (Number.isSafeInteger(value)) return;
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: "block hash input",
    value,
    problem: "is not an integer that can be encoded exactly",
    remedy: "Give token ids and offsets as whole numbers.",
  });
}
