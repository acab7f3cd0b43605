/**
 * Canonical CBOR as vLLM's `cbor2.dumps(..., canonical=True)` writes it for block hashes: definite lengths, shortest
 * integers. Only the types that block hashes use: integers, byte strings, texts, arrays, null.
 */
import { ByteBuffer, checkInteger } from "./byte-buffer.ts";
import type { ValueWriter } from "./value-writer.ts";

const MAJOR_UNSIGNED = 0x00;
const MAJOR_NEGATIVE = 0x20;
const MAJOR_BYTES = 0x40;
const MAJOR_TEXT = 0x60;
const MAJOR_ARRAY = 0x80;
const NULL = 0xf6;
const TWO_POW_32 = 0x1_0000_0000;

export class CborWriter implements ValueWriter {
  readonly #out: ByteBuffer;

  constructor(initialBytes = 1024) {
    this.#out = new ByteBuffer(initialBytes);
  }

  reset(): void {
    this.#out.reset();
  }
  view(): Uint8Array {
    return this.#out.view();
  }
  copy(): Uint8Array {
    return this.#out.copy();
  }
  message(): Uint8Array {
    return this.#out.view();
  }

  null(): void {
    this.#out.byte(NULL);
  }

  integer(value: number): void {
    checkInteger(value);
    if (value >= 0) this.#head(MAJOR_UNSIGNED, value);
    else this.#head(MAJOR_NEGATIVE, -1 - value);
  }

  array(count: number): void {
    this.#head(MAJOR_ARRAY, count);
  }
  endArray(): void {
    // The head said how many items there are.
  }

  bytes(value: Uint8Array): void {
    this.#head(MAJOR_BYTES, value.length);
    this.raw(value);
  }

  text(value: string): void {
    const encoded = this.#out.encode(value);
    this.#head(MAJOR_TEXT, encoded.length);
    this.raw(encoded);
  }
  tag(value: string): void {
    this.text(value);
  }

  raw(value: Uint8Array): void {
    this.#out.raw(value);
  }

  /** The major type with its argument in the shortest form. */
  #head(major: number, argument: number): void {
    if (argument < 24) return this.#out.byte(major | argument);
    const width = argument < 0x100 ? 1 : argument < 0x1_0000 ? 2 : argument < TWO_POW_32 ? 4 : 8;
    this.#out.byte(major | (width === 1 ? 24 : width === 2 ? 25 : width === 4 ? 26 : 27));
    this.#out.unsigned(argument, width, false);
  }
}
