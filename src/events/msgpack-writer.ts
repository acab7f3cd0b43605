import { MooncakeKvError } from "../errors.ts";

/**
 * Writes msgpack byte for byte as msgspec does: integers in their shortest form, whatever JavaScript type holds them, and
 * floating-point numbers only where the caller says so. One growing buffer, used again.
 */
export class MsgpackWriter {
  #bytes: Uint8Array;
  #view: DataView;
  #length = 0;

  constructor(bytes = 4096) {
    this.#bytes = new Uint8Array(bytes);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** A copy of what was written since the last call. */
  take(): Uint8Array {
    const taken = this.#bytes.slice(0, this.#length);
    this.#length = 0;
    return taken;
  }

  /** Forgets what was written since the last `take`. */
  clear(): void {
    this.#length = 0;
  }

  null(): void {
    this.#byte(0xc0);
  }
  boolean(value: boolean): void {
    this.#byte(value ? 0xc3 : 0xc2);
  }
  float(value: number): void {
    const at = this.#grow(9);
    this.#view.setUint8(at, 0xcb);
    this.#view.setFloat64(at + 1, value);
  }

  /** A whole number from -2^63 to 2^64 - 1. */
  integer(value: number | bigint): void {
    if (typeof value === "bigint") {
      if (value >= -0x8000_0000n && value <= 0xffff_ffffn) this.integer(Number(value));
      else this.#wide(value);
    } else if (!Number.isSafeInteger(value)) refuse(value, "is not a whole number below 2^53");
    else if (value >= 0) this.#unsigned(value);
    else this.#negative(value);
  }

  text(value: string): void {
    const length = Buffer.byteLength(value);
    if (length < 32) this.#byte(0xa0 | length);
    else this.#sized(length, 0xd9, 0xda, 0xdb);
    const at = this.#grow(length);
    Buffer.from(this.#bytes.buffer, at, length).write(value);
  }
  binary(value: Uint8Array): void {
    this.#sized(value.length, 0xc4, 0xc5, 0xc6);
    // First: the bytes may move.
    const at = this.#grow(value.length);
    this.#bytes.set(value, at);
  }

  /** Starts an array: `count` values follow. */
  array(count: number): void {
    if (count < 16) this.#byte(0x90 | count);
    else this.#sized(count, null, 0xdc, 0xdd);
  }
  /**
   * Starts a map: `count` keys follow, each with its value. Its header is as long as one of `countMax` keys: msgspec reserves that
   * before it knows which fields are absent.
   */
  map(count: number, countMax = count): void {
    if (countMax < 16) this.#byte(0x80 | count);
    else this.#number(0xde, 2, count);
  }

  #unsigned(value: number): void {
    if (value < 0x80) this.#byte(value);
    else if (value <= 0xff) this.#number(0xcc, 1, value);
    else if (value <= 0xffff) this.#number(0xcd, 2, value);
    else if (value <= 0xffff_ffff) this.#number(0xce, 4, value);
    else this.#wide(BigInt(value));
  }
  #negative(value: number): void {
    if (value >= -0x20) this.#byte(value & 0xff);
    else if (value >= -0x80) this.#number(0xd0, 1, value);
    else if (value >= -0x8000) this.#number(0xd1, 2, value);
    else if (value >= -0x8000_0000) this.#number(0xd2, 4, value);
    else this.#wide(BigInt(value));
  }
  #wide(value: bigint): void {
    if (value < -(2n ** 63n) || value >= 2n ** 64n) refuse(value, "does not fit into 64 bits");
    const at = this.#grow(9);
    this.#view.setUint8(at, value < 0n ? 0xd3 : 0xcf);
    this.#view.setBigUint64(at + 1, BigInt.asUintN(64, value));
  }

  #sized(length: number, one: number | null, two: number, four: number): void {
    if (length <= 0xff && one !== null) this.#number(one, 1, length);
    else if (length <= 0xffff) this.#number(two, 2, length);
    else this.#number(four, 4, length);
  }
  #number(tag: number, bytes: 1 | 2 | 4, value: number): void {
    const at = this.#grow(1 + bytes);
    this.#view.setUint8(at, tag);
    if (bytes === 1) this.#view.setUint8(at + 1, value);
    else if (bytes === 2) this.#view.setUint16(at + 1, value);
    else this.#view.setUint32(at + 1, value);
  }
  #byte(value: number): void {
    // First: the bytes may move.
    const at = this.#grow(1);
    this.#bytes[at] = value;
  }

  /** Makes room for `bytes` more and returns where they go. */
  #grow(bytes: number): number {
    const at = this.#length;
    this.#length += bytes;
    if (this.#length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#length, 2 * this.#bytes.length));
      larger.set(this.#bytes.subarray(0, at));
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    }
    return at;
  }
}

function refuse(value: number | bigint, problem: string): never {
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: "msgpack integer",
    value: String(value),
    problem,
    remedy: "Give a whole number from -2^63 to 2^64 - 1; above 2^53 as a bigint.",
  });
}
