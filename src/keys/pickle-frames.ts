/** Opcodes of pickle protocol 5 that block hashes need, and how CPython's pickler cuts their bytes into frames. */
import { brokenInvariant } from "../errors.ts";
import type { ByteBuffer } from "./byte-buffer.ts";

export const MARK = 0x28;
export const EMPTY_TUPLE = 0x29;
export const BINBYTES = 0x42;
export const SHORT_BINBYTES = 0x43;
export const BININT = 0x4a;
export const BININT1 = 0x4b;
export const BININT2 = 0x4d;
export const NONE = 0x4e;
export const BINUNICODE = 0x58;
export const BINGET = 0x68;
export const LONG_BINGET = 0x6a;
export const TUPLE = 0x74;
export const TUPLE1 = 0x85;
export const LONG1 = 0x8a;
export const SHORT_BINUNICODE = 0x8c;
export const MEMOIZE = 0x94;
const STOP = 0x2e;
const PROTOCOL = 0x80;
const FRAME = 0x95;

/** A frame ends at the first object that begins when it has this many bytes; payloads as large stand outside of frames. */
const FRAME_BYTES = 0x1_0000;
/** A shorter rest goes without a frame. */
const FRAME_BYTES_MIN = 4;
const FRAME_HEAD_BYTES = 9;
const CLOSED = -1;

/** Bytes before the payload, by opcode, of the opcodes that begin an object; the others are one byte, inside of an object. */
const HEAD_BYTES: { readonly [opcode: number]: number } = {
  [MARK]: 1,
  [EMPTY_TUPLE]: 1,
  [NONE]: 1,
  [BININT1]: 2,
  [BINGET]: 2,
  [BININT2]: 3,
  [BININT]: 5,
  [LONG_BINGET]: 5,
  [LONG1]: 2,
  [SHORT_BINBYTES]: 2,
  [SHORT_BINUNICODE]: 2,
  [BINBYTES]: 5,
  [BINUNICODE]: 5,
};

/** Writes the whole message: protocol, `content` in frames, end. `into` is reset. */
export function writeFrames(content: Uint8Array, into: ByteBuffer): void {
  into.reset();
  into.byte(PROTOCOL);
  into.byte(5);
  const frames = new Frames(into);
  // No object can begin at the end of a full frame when all of it fits into one.
  if (content.length < FRAME_BYTES) frames.write(content);
  else splitAtObjects(content, frames);
  frames.write(Uint8Array.of(STOP));
  frames.close();
}

function splitAtObjects(content: Uint8Array, frames: Frames): void {
  for (let at = 0; at < content.length;) {
    const headBytes = HEAD_BYTES[content[at]!];
    const payload = headBytes === undefined ? 0 : payloadBytes(content, at);
    const end = at + (headBytes ?? 1) + payload;
    if (end > content.length) brokenInvariant("a pickle ends inside an opcode", { at, end });
    if (headBytes !== undefined) frames.boundary();
    if (payload >= FRAME_BYTES) frames.writeOutside(content.subarray(at, end));
    else frames.write(content.subarray(at, end));
    at = end;
  }
}

function payloadBytes(content: Uint8Array, at: number): number {
  switch (content[at]) {
    case LONG1:
    case SHORT_BINBYTES:
    case SHORT_BINUNICODE:
      return content[at + 1] ?? 0;
    case BINBYTES:
    case BINUNICODE:
      return new DataView(content.buffer, content.byteOffset + at + 1, 4).getUint32(0, true);
    default:
      return 0;
  }
}

/** Frames open with the first byte that is written into them. */
class Frames {
  readonly #out: ByteBuffer;
  #start = CLOSED;

  constructor(out: ByteBuffer) {
    this.#out = out;
  }
  write(part: Uint8Array): void {
    if (this.#start === CLOSED) {
      this.#start = this.#out.length;
      this.#out.byte(FRAME);
      this.#out.unsigned(0, 8, true);
    }
    this.#out.raw(part);
  }
  writeOutside(part: Uint8Array): void {
    this.close();
    this.#out.raw(part);
  }
  /** An object begins here. */
  boundary(): void {
    if (this.#start !== CLOSED && this.#bytes() >= FRAME_BYTES) this.close();
  }
  close(): void {
    if (this.#start === CLOSED) return;
    const bytes = this.#bytes();
    if (bytes < FRAME_BYTES_MIN) this.#out.remove(this.#start, FRAME_HEAD_BYTES);
    else this.#out.set(this.#start + 1, new Uint8Array(Uint32Array.of(bytes).buffer));
    this.#start = CLOSED;
  }
  #bytes(): number {
    return this.#out.length - this.#start - FRAME_HEAD_BYTES;
  }
}
