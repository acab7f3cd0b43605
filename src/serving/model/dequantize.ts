import { brokenInvariant } from "../../errors.ts";
import { dequantizeQ4K, dequantizeQ5K, dequantizeQ6K } from "./dequantize-k.ts";
import { HALF_TO_FLOAT, halfAt } from "./half-float.ts";

/**
 * Decodes `elementCount` numbers of a ggml encoding to float32. `bytes` holds exactly the tensor's blocks; `typeNumber` must be
 * one of TENSOR_ENCODINGS.
 *
 * Block formats (d, m are half floats): Q4_0 d, 16 nibble bytes; Q4_1 d, m, 16 bytes; Q5_0 d, 32 fifth bits, 16 bytes; Q5_1 d, m,
 * 32 fifth bits, 16 bytes; Q8_0 d, 32 signed bytes. Low nibbles are numbers 0 to 15 of the block, high nibbles 16 to 31.
 */
export function dequantize(
  typeNumber: number,
  bytes: Uint8Array,
  elementCount: number,
): Float32Array {
  const out = new Float32Array(elementCount);
  const decode =
    DECODERS.get(typeNumber) ?? brokenInvariant("dequantize: unknown type number", typeNumber);
  decode(bytes, out);
  return out;
}

type Decoder = (bytes: Uint8Array, out: Float32Array) => void;

const DECODERS: ReadonlyMap<number, Decoder> = new Map<number, Decoder>([
  [0, (bytes, out) => new Uint8Array(out.buffer).set(bytes)],
  [1, decodeF16],
  [2, decodeQ4Zero],
  [3, decodeQ4One],
  [6, decodeQ5Zero],
  [7, decodeQ5One],
  [8, decodeQ8Zero],
  [12, dequantizeQ4K],
  [13, dequantizeQ5K],
  [14, dequantizeQ6K],
  [30, decodeBf16],
]);

function decodeF16(bytes: Uint8Array, out: Float32Array): void {
  for (let index = 0; index < out.length; index++) out[index] = halfAt(bytes, index * 2);
}

/** A bfloat16 is the upper half of a float32. */
function decodeBf16(bytes: Uint8Array, out: Float32Array): void {
  const halves = new Uint8Array(out.buffer);
  for (let index = 0; index < out.length; index++) {
    halves[index * 4 + 2] = bytes[index * 2]!;
    halves[index * 4 + 3] = bytes[index * 2 + 1]!;
  }
}

function decodeQ4Zero(bytes: Uint8Array, out: Float32Array): void {
  for (let at = 0, to = 0; to < out.length; at += 18, to += 32) {
    const scale = halfAt(bytes, at);
    for (let index = 0; index < 16; index++) {
      const pair = bytes[at + 2 + index]!;
      out[to + index] = scale * ((pair & 15) - 8);
      out[to + index + 16] = scale * ((pair >> 4) - 8);
    }
  }
}

function decodeQ4One(bytes: Uint8Array, out: Float32Array): void {
  for (let at = 0, to = 0; to < out.length; at += 20, to += 32) {
    const scale = halfAt(bytes, at);
    const least = halfAt(bytes, at + 2);
    for (let index = 0; index < 16; index++) {
      const pair = bytes[at + 4 + index]!;
      out[to + index] = scale * (pair & 15) + least;
      out[to + index + 16] = scale * (pair >> 4) + least;
    }
  }
}

function decodeQ5Zero(bytes: Uint8Array, out: Float32Array): void {
  for (let at = 0, to = 0; to < out.length; at += 22, to += 32) {
    decodeQ5Block(bytes, at + 2, halfAt(bytes, at), -16, 0, out, to);
  }
}

function decodeQ5One(bytes: Uint8Array, out: Float32Array): void {
  for (let at = 0, to = 0; to < out.length; at += 24, to += 32) {
    decodeQ5Block(bytes, at + 4, halfAt(bytes, at), 0, halfAt(bytes, at + 2), out, to);
  }
}

/** Four bytes of fifth bits, then 16 bytes of nibbles. */
function decodeQ5Block(
  bytes: Uint8Array,
  at: number,
  scale: number,
  shift: number,
  least: number,
  out: Float32Array,
  to: number,
): void {
  for (let index = 0; index < 16; index++) {
    const pair = bytes[at + 4 + index]!;
    const lowFifth = (bytes[at + (index >> 3)]! >> (index & 7)) & 1;
    const highFifth = (bytes[at + 2 + (index >> 3)]! >> (index & 7)) & 1;
    out[to + index] = scale * (((pair & 15) | (lowFifth << 4)) + shift) + least;
    out[to + index + 16] = scale * (((pair >> 4) | (highFifth << 4)) + shift) + least;
  }
}

function decodeQ8Zero(bytes: Uint8Array, out: Float32Array): void {
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0, to = 0; to < out.length; at += 34, to += 32) {
    const scale = HALF_TO_FLOAT[bytes[at]! | (bytes[at + 1]! << 8)]!;
    for (let index = 0; index < 32; index++) out[to + index] = scale * signed[at + 2 + index]!;
  }
}
