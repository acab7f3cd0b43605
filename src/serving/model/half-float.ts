/** Every half-precision number as float32, by its 16 bits. */
export const HALF_TO_FLOAT: Float32Array = Float32Array.from({ length: 65536 }, (_, bits) =>
  halfToFloat(bits),
);

/** The little-endian half-precision number at a byte offset. */
export function halfAt(bytes: Uint8Array, offset: number): number {
  return HALF_TO_FLOAT[bytes[offset]! | (bytes[offset + 1]! << 8)]!;
}

function halfToFloat(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 1023;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa === 0 ? sign * Infinity : Number.NaN;
  return sign * (1 + mantissa / 1024) * 2 ** (exponent - 15);
}
