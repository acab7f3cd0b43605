import { halfAt } from "./half-float.ts";

/**
 * The K encodings of ggml: super-blocks of 256 numbers.
 *
 * Q4_K and Q5_K: half floats d and m, 12 bytes with eight 6-bit scales and eight 6-bit minima, (Q5_K: 32 bytes of fifth bits, bit
 * s for sub-block s,) 128 bytes of nibbles; 32 bytes serve two sub-blocks of 32 numbers. number = d * scale * q - m * minimum.
 */
export function dequantizeQ4K(bytes: Uint8Array, out: Float32Array): void {
  for (let at = 0, to = 0; to < out.length; at += 144, to += 256)
    decodeNibbles(bytes, at, at + 16, -1, out, to);
}

export function dequantizeQ5K(bytes: Uint8Array, out: Float32Array): void {
  for (let at = 0, to = 0; to < out.length; at += 176, to += 256)
    decodeNibbles(bytes, at, at + 48, at + 16, out, to);
}

/**
 * Q6_K: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed scales, half float d; number = d * scale * (q - 32).
 * Each half of 128 numbers takes 64 nibble bytes and 32 pair bytes; a scale serves 16 numbers.
 */
export function dequantizeQ6K(bytes: Uint8Array, out: Float32Array): void {
  for (let at = 0, to = 0; to < out.length; at += 210, to += 256) {
    const scale = halfAt(bytes, at + 208);
    for (let index = 0; index < 256; index++) {
      const half = index >> 7;
      const quarter = (index >> 5) & 3;
      const lane = index & 31;
      const nibbles = bytes[at + half * 64 + (quarter & 1) * 32 + lane]!;
      const low = quarter < 2 ? nibbles & 15 : nibbles >> 4;
      const high = (bytes[at + 128 + half * 32 + lane]! >> (quarter * 2)) & 3;
      const subScale = (bytes[at + 192 + (index >> 4)]! << 24) >> 24;
      out[to + index] = scale * subScale * ((low | (high << 4)) - 32);
    }
  }
}

function decodeNibbles(
  bytes: Uint8Array,
  at: number,
  nibblesAt: number,
  fifthBitsAt: number,
  out: Float32Array,
  to: number,
): void {
  const scale = halfAt(bytes, at);
  const minimumScale = halfAt(bytes, at + 2);
  for (let sub = 0; sub < 8; sub++) {
    const subScale = scale * sixBits(bytes, at + 4, sub, 0);
    const minimum = minimumScale * sixBits(bytes, at + 4, sub, 4);
    const shift = (sub & 1) * 4;
    for (let lane = 0; lane < 32; lane++) {
      let quantum = (bytes[nibblesAt + (sub >> 1) * 32 + lane]! >> shift) & 15;
      if (fifthBitsAt >= 0) quantum |= ((bytes[fifthBitsAt + lane]! >> sub) & 1) << 4;
      out[to + sub * 32 + lane] = subScale * quantum - minimum;
    }
  }
}

/**
 * One of the eight scales (`kindOffset` 0) or minima (4). Of the first four, six bits lie in bytes 0 to 7; of the last four the
 * low four bits lie in bytes 8 to 11 (scales low, minima high) and the upper two on top of bytes 0 to 7.
 */
function sixBits(bytes: Uint8Array, at: number, sub: number, kindOffset: number): number {
  if (sub < 4) return bytes[at + sub + kindOffset]! & 63;
  const low = (bytes[at + sub + 4]! >> kindOffset) & 15;
  return low | ((bytes[at + sub - 4 + kindOffset]! >> 6) << 4);
}
