/**
 * 64-bit hash of the raw bits of logits, as two int32 in `out[offset]` and `out[offset + 1]`: equal hashes show that two
 * computations gave the same bits (0 and -0 differ). Two lanes of MurmurHash3's 32-bit round with different seeds; fast, not
 * for adversaries.
 */
export function logitsHash(logits: Float32Array, out: Int32Array, offset = 0): void {
  const words = new Int32Array(logits.buffer, logits.byteOffset, logits.length);
  let first = 0x2f0b4a27;
  let second = 0x6c8e9cf5;
  for (let index = 0; index < words.length; index++) {
    let word = Math.imul(words[index]!, 0xcc9e2d51);
    word = Math.imul((word << 15) | (word >>> 17), 0x1b873593);
    first ^= word;
    first = (Math.imul((first << 13) | (first >>> 19), 5) + 0xe6546b64) | 0;
    second ^= word;
    second = (Math.imul((second << 17) | (second >>> 15), 9) + 0x561ccd1b) | 0;
  }
  out[offset] = finish(first ^ words.length);
  out[offset + 1] = finish(second ^ words.length);
}

/** The two halves as 16 hex digits, for people and JSON. */
export function logitsHashText(hash: Int32Array, offset = 0): string {
  return [hash[offset]!, hash[offset + 1]!]
    .map((half) => (half >>> 0).toString(16).padStart(8, "0"))
    .join("");
}

function finish(value: number): number {
  let mixed = value ^ (value >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
