/**
 * Writes the protobuf wire format: just the parts that ONNX needs (varint, fixed32, length-delimited).
 *
 * Small fields are appended to one growing buffer. Large byte strings (weights) are kept as chunks of their own, so that
 * they are copied exactly once, by `finish`.
 */
const INLINE_BYTES_MAX = 1024;

export class ProtobufWriter {
  private readonly chunks: Uint8Array[] = [];
  private current = new Uint8Array(64);
  private used = 0;
  private total = 0;

  /** Bytes written so far. */
  get length(): number {
    return this.total;
  }

  /** A signed or unsigned integer as varint; negative numbers take ten bytes, as protobuf's int64 does. */
  integer(field: number, value: number): this {
    return this.tag(field, 0).varint(value);
  }

  float32(field: number, value: number): this {
    this.tag(field, 5);
    this.reserve(4);
    new DataView(this.current.buffer).setFloat32(this.used, value, true);
    this.advance(4);
    return this;
  }

  bytes(field: number, value: Uint8Array): this {
    this.tag(field, 2).varint(value.byteLength);
    if (value.byteLength > INLINE_BYTES_MAX) return this.append(value);
    this.reserve(value.byteLength);
    this.current.set(value, this.used);
    this.advance(value.byteLength);
    return this;
  }

  text(field: number, value: string): this {
    return this.bytes(field, new TextEncoder().encode(value));
  }

  /** Embeds a finished message; `message` must not be written to afterwards. */
  message(field: number, message: ProtobufWriter): this {
    this.tag(field, 2).varint(message.length);
    message.seal();
    for (const chunk of message.chunks) this.append(chunk);
    return this;
  }

  finish(): Uint8Array<ArrayBuffer> {
    this.seal();
    const result = new Uint8Array(this.total);
    let offset = 0;
    for (const chunk of this.chunks) {
      result.set(chunk, offset);
      offset += chunk.byteLength;
    }
    return result;
  }

  private tag(field: number, wireType: number): this {
    return this.varint(field * 8 + wireType);
  }

  private varint(value: number): this {
    if (!Number.isSafeInteger(value))
      throw new RangeError(`protobuf varint: ${value} is not a safe integer`);
    this.reserve(10);
    if (value < 0) {
      // Two's complement over 64 bits: the low and high half are taken apart without BigInt.
      this.varint64(value >>> 0, Math.floor(value / 0x1_0000_0000) >>> 0);
      return this;
    }
    let rest = value;
    while (rest >= 0x80) {
      this.current[this.used] = (rest % 0x80) | 0x80;
      this.advance(1);
      rest = Math.floor(rest / 0x80);
    }
    this.current[this.used] = rest;
    this.advance(1);
    return this;
  }

  private varint64(low: number, high: number): void {
    for (let shift = 0; shift < 64; shift += 7) {
      const fromLow = shift < 32 ? low >>> shift : 0;
      const fromHigh = shift >= 32 ? high >>> (shift - 32) : shift > 25 ? high << (32 - shift) : 0;
      const septet = (fromLow | fromHigh) & 0x7f;
      this.current[this.used] = shift + 7 < 64 ? septet | 0x80 : septet;
      this.advance(1);
    }
  }

  private reserve(bytes: number): void {
    if (this.used + bytes <= this.current.byteLength) return;
    const grown = new Uint8Array(Math.max(this.current.byteLength * 2, this.used + bytes));
    grown.set(this.current.subarray(0, this.used));
    this.current = grown;
  }

  private advance(bytes: number): void {
    this.used += bytes;
    this.total += bytes;
  }

  private append(chunk: Uint8Array): this {
    this.seal();
    this.chunks.push(chunk);
    this.total += chunk.byteLength;
    return this;
  }

  /** Moves what is in the growing buffer to the chunk list. */
  private seal(): void {
    if (this.used === 0) return;
    this.chunks.push(this.current.subarray(0, this.used));
    this.current = new Uint8Array(64);
    this.used = 0;
  }
}
