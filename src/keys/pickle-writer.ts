/**
 * Pickle protocol 5 of tuples, integers, bytes and texts, byte for byte as CPython's C pickler writes them. Its bytes depend on
 * which values are one object: bytes, texts and tuples are memoized, and an object that comes again is only referred to.
 */
import { ByteBuffer, checkInteger } from "./byte-buffer.ts";
import {
  BINBYTES,
  BINGET,
  BININT,
  BININT1,
  BININT2,
  BINUNICODE,
  LONG1,
  LONG_BINGET,
  MARK,
  EMPTY_TUPLE,
  MEMOIZE,
  NONE,
  SHORT_BINBYTES,
  SHORT_BINUNICODE,
  TUPLE,
  TUPLE1,
  writeFrames,
} from "./pickle-frames.ts";
import type { ValueWriter } from "./value-writer.ts";

export class PickleWriter implements ValueWriter {
  readonly #out: ByteBuffer;
  readonly #framed: ByteBuffer;
  #memoized = 0;
  /** Texts that are one object wherever they occur, and their place in the memo. */
  readonly #shared = new Map<string, number>();

  constructor(initialBytes = 1024) {
    this.#out = new ByteBuffer(initialBytes);
    this.#framed = new ByteBuffer(initialBytes + 16);
  }

  reset(memoized = 0): void {
    this.#out.reset();
    this.#memoized = memoized;
    this.#shared.clear();
  }
  view(): Uint8Array {
    return this.#out.view();
  }
  copy(): Uint8Array {
    return this.#out.copy();
  }
  message(): Uint8Array {
    writeFrames(this.#out.view(), this.#framed);
    return this.#framed.view();
  }

  null(): void {
    this.#out.byte(NONE);
  }

  integer(value: number): void {
    checkInteger(value);
    const out = this.#out;
    if (value >= 0 && value < 0x100) {
      out.byte(BININT1);
      out.byte(value);
    } else if (value >= 0 && value < 0x1_0000) {
      out.byte(BININT2);
      out.unsigned(value, 2, true);
    } else if (value === (value | 0)) {
      out.byte(BININT);
      out.unsigned(value >>> 0, 4, true);
    } else {
      const bytes = twosComplement(value);
      out.byte(LONG1);
      out.byte(bytes.length);
      for (const byte of bytes) out.byte(byte);
    }
  }

  array(count: number): void {
    if (count > 3) this.#out.byte(MARK);
  }
  endArray(count: number): void {
    if (count === 0) return this.#out.byte(EMPTY_TUPLE);
    this.#out.byte(count > 3 ? TUPLE : TUPLE1 - 1 + count);
    this.#memoize();
  }

  bytes(value: Uint8Array): void {
    this.#sized(SHORT_BINBYTES, BINBYTES, value);
  }

  /** The empty text and single characters up to U+00FF are one object each in CPython; other equal texts are taken for two. */
  text(value: string): void {
    if (value.length === 0 || (value.length === 1 && value <= "\u00ff")) this.tag(value);
    else this.#sized(SHORT_BINUNICODE, BINUNICODE, this.#out.encode(value));
  }

  tag(value: string): void {
    const place = this.#shared.get(value);
    if (place === undefined) {
      this.#shared.set(value, this.#memoized);
      this.#sized(SHORT_BINUNICODE, BINUNICODE, this.#out.encode(value));
    } else if (place < 0x100) {
      this.#out.byte(BINGET);
      this.#out.byte(place);
    } else {
      this.#out.byte(LONG_BINGET);
      this.#out.unsigned(place, 4, true);
    }
  }

  raw(value: Uint8Array): void {
    this.#out.raw(value);
  }

  #sized(short: number, long: number, value: Uint8Array): void {
    const isShort = value.length < 0x100;
    this.#out.byte(isShort ? short : long);
    this.#out.unsigned(value.length, isShort ? 1 : 4, true);
    this.#out.raw(value);
    this.#memoize();
  }
  #memoize(): void {
    this.#out.byte(MEMOIZE);
    this.#memoized++;
  }
}

/** The shortest form whose top bit is the sign, little-endian. */
function twosComplement(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ;) {
    const byte = ((rest % 256) + 256) % 256;
    bytes.push(byte);
    rest = Math.floor(rest / 256);
    if ((rest === 0 && byte < 0x80) || (rest === -1 && byte >= 0x80)) return bytes;
  }
}
