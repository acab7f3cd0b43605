/**
 * Goal: every tensor encoding is decoded as ggml defines it.
 * Method: random blocks decoded by the project and by a second decoder written number by number from the format's definition
 * (bit positions looked up for each element, no loops shared with the project's); a few values worked out by hand.
 */
import { describe, expect, test } from "vitest";
import { dequantize } from "../../src/serving/model/dequantize.ts";
import { TENSOR_ENCODINGS } from "../../src/serving/model/gguf-types.ts";
import { someTokens } from "../integration/model-support.ts";

/** Half float by the definition of IEEE 754. */
function half(block: Uint8Array, at: number): number {
  const bits = block[at]! + block[at + 1]! * 256;
  const exponent = Math.floor(bits / 1024) % 32;
  const fraction = (bits % 1024) / 1024;
  const magnitude = exponent === 0 ? fraction * 2 ** -14 : (1 + fraction) * 2 ** (exponent - 15);
  return bits >= 32768 ? -magnitude : magnitude;
}
const nibble = (block: Uint8Array, at: number, high: boolean): number =>
  high ? Math.floor(block[at]! / 16) : block[at]! % 16;
const bit = (block: Uint8Array, at: number, index: number): number =>
  Math.floor(block[at + Math.floor(index / 8)]! / 2 ** (index % 8)) % 2;
const signed = (byte: number): number => (byte < 128 ? byte : byte - 256);

/** Scale and minimum of sub-block s of a Q4_K or Q5_K block, out of the 96 packed bits. */
function packedScales(block: Uint8Array, s: number): { scale: number; minimum: number } {
  const packed = block.subarray(4, 16);
  if (s < 4) return { scale: packed[s]! % 64, minimum: packed[s + 4]! % 64 };
  return {
    scale: nibble(packed, s + 4, false) + Math.floor(packed[s - 4]! / 64) * 16,
    minimum: nibble(packed, s + 4, true) + Math.floor(packed[s]! / 64) * 16,
  };
}

/** Number i of a block. */
const REFERENCE: Record<string, (block: Uint8Array, i: number) => number> = {
  F16: (block) => half(block, 0),
  Q4_0: (block, i) => half(block, 0) * (nibble(block, 2 + (i % 16), i >= 16) - 8),
  Q4_1: (block, i) => half(block, 0) * nibble(block, 4 + (i % 16), i >= 16) + half(block, 2),
  Q5_0: (block, i) =>
    half(block, 0) * (nibble(block, 6 + (i % 16), i >= 16) + 16 * bit(block, 2, i) - 16),
  Q5_1: (block, i) =>
    half(block, 0) * (nibble(block, 8 + (i % 16), i >= 16) + 16 * bit(block, 4, i)) +
    half(block, 2),
  Q8_0: (block, i) => half(block, 0) * signed(block[2 + i]!),
  Q4_K: (block, i) => {
    const s = Math.floor(i / 32);
    const { scale, minimum } = packedScales(block, s);
    const quantum = nibble(block, 16 + Math.floor(s / 2) * 32 + (i % 32), s % 2 === 1);
    return half(block, 0) * scale * quantum - half(block, 2) * minimum;
  },
  Q5_K: (block, i) => {
    const s = Math.floor(i / 32);
    const { scale, minimum } = packedScales(block, s);
    const fifth = bit(block, 16 + (i % 32), s);
    const quantum = nibble(block, 48 + Math.floor(s / 2) * 32 + (i % 32), s % 2 === 1) + 16 * fifth;
    return half(block, 0) * scale * quantum - half(block, 2) * minimum;
  },
  Q6_K: (block, i) => {
    const h = Math.floor(i / 128);
    const j = i % 128;
    const low = nibble(block, h * 64 + (j % 64), j >= 64);
    const pairs = block[128 + h * 32 + (j % 32)]!;
    const high = Math.floor(pairs / 4 ** Math.floor(j / 32)) % 4;
    return half(block, 208) * signed(block[192 + Math.floor(i / 16)]!) * (low + 16 * high - 32);
  },
};

/** Byte offsets of the half floats of a block: given ordinary values, for a random exponent could mean infinity. */
const HALF_OFFSETS: Record<string, readonly number[]> = {
  F16: [0],
  Q4_1: [0, 2],
  Q5_1: [0, 2],
  Q4_K: [0, 2],
  Q5_K: [0, 2],
  Q6_K: [208],
};

describe.each([...TENSOR_ENCODINGS].filter(([, { name }]) => name in REFERENCE))(
  "type %i",
  (typeNumber, encoding) => {
    test(`${encoding.name} equals the definition`, () => {
      const BLOCKS = 5;
      const bytes = Uint8Array.from(
        someTokens(BLOCKS * encoding.bytesPerBlock, 256, typeNumber + 3),
      );
      for (let index = 0; index < BLOCKS; index++) {
        for (const at of HALF_OFFSETS[encoding.name] ?? [0]) {
          // Exponents from -11 to 4 and either sign; the fraction stays random.
          const upper = index * encoding.bytesPerBlock + at + 1;
          bytes[upper] = (bytes[upper]! & 0x83) | ((4 + (bytes[upper]! % 16)) << 2);
        }
      }
      const elements = BLOCKS * encoding.elementsPerBlock;
      const decoded = dequantize(typeNumber, bytes, elements);
      const expected = Float32Array.from({ length: elements }, (_, index) => {
        const block = Math.floor(index / encoding.elementsPerBlock) * encoding.bytesPerBlock;
        const view = bytes.subarray(block, block + encoding.bytesPerBlock);
        return REFERENCE[encoding.name]!(view, index % encoding.elementsPerBlock);
      });
      expect(decoded).toHaveLength(elements);
      expect(new Set(decoded).size).toBeGreaterThan(BLOCKS - 1);
      for (let index = 0; index < elements; index++) {
        const tolerance = Math.abs(expected[index]!) * 1e-6 + 1e-9;
        expect(Math.abs(decoded[index]! - expected[index]!), `number ${index}`).toBeLessThanOrEqual(
          tolerance,
        );
      }
    });
  },
);

test("plain numbers and hand-made values", () => {
  const numbers = Float32Array.of(1.5, -2, 1e-30, 0);
  expect(dequantize(0, new Uint8Array(numbers.buffer), 4)).toEqual(numbers);
  // bfloat16 0x3fc0 is 1.5, 0xc000 is -2.
  expect(dequantize(30, Uint8Array.of(0xc0, 0x3f, 0x00, 0xc0), 2)).toEqual(
    Float32Array.of(1.5, -2),
  );
  // Half floats: smallest subnormal, infinity, largest.
  const halves = dequantize(1, Uint8Array.of(0x01, 0x00, 0x00, 0x7c, 0xff, 0x7b, 0x00, 0x80), 4);
  expect([...halves]).toEqual([2 ** -24, Infinity, 65504, -0]);
  // Q4_0 with scale 2: nibble 0 is -16, nibble 15 is 14.
  const block = new Uint8Array(18);
  block.set([0x00, 0x40, 0xf0]);
  const decoded = dequantize(2, block, 32);
  expect([decoded[0], decoded[16], decoded[1]]).toEqual([-16, 14, -16]);
});

test("every encoding is covered", () => {
  const covered = new Set([...Object.keys(REFERENCE), "F32", "BF16"]);
  expect(
    [...TENSOR_ENCODINGS.values()].map(({ name }) => name).filter((name) => !covered.has(name)),
  ).toEqual([]);
});
