/**
 * XXH3 with 128 bits and seed 0: the reference of the addon's, and NONE_HASH for the xxhash variants. Written for reading: the
 * lanes are BigInts, so it is slow, and never on a hot path.
 */
import { XXH3_SECRET } from "./xxh3-secret.ts";

const MASK = 0xffff_ffff_ffff_ffffn;
const PRIME32_1 = 0x9e3779b1n;
const PRIME32_2 = 0x85ebca77n;
const PRIME32_3 = 0xc2b2ae3dn;
const PRIME64_1 = 0x9e3779b185ebca87n;
const PRIME64_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME64_3 = 0x165667b19e3779f9n;
const PRIME64_4 = 0x85ebca77c2b2ae63n;
const PRIME64_5 = 0x27d4eb2f165667c5n;
const MIX_1 = 0x165667919e3779f9n;
const MIX_2 = 0x9fb21c651e98df25n;
const STRIPE_BYTES = 64;
const ROUND_STRIPES = (XXH3_SECRET.length - STRIPE_BYTES) / 8;
const LANES = [
  PRIME32_3,
  PRIME64_1,
  PRIME64_2,
  PRIME64_3,
  PRIME64_4,
  PRIME32_2,
  PRIME64_5,
  PRIME32_1,
];

type Halves = readonly [low: bigint, high: bigint];

/** Writes 16 bytes to `into` at `offset`: big-endian, the upper half first, as Python's `xxh3_128_digest` gives them. */
export function xxh3Digest(bytes: Uint8Array, into: Uint8Array, offset: number): void {
  const [low, high] = hash(viewOf(bytes), bytes.length);
  const out = new DataView(into.buffer, into.byteOffset + offset, 16);
  out.setBigUint64(0, high);
  out.setBigUint64(8, low);
}

function hash(input: DataView, length: number): Halves {
  if (length <= 3) return hashUpTo3(input, length);
  if (length <= 8) return hash4To8(input, length);
  if (length <= 16) return hash9To16(input, length);
  if (length <= 240) return hashMiddle(input, length);
  return hashLong(input, length);
}

function hashUpTo3(input: DataView, length: number): Halves {
  if (length === 0) return [avalanche64(key(64) ^ key(72)), avalanche64(key(80) ^ key(88))];
  const first = input.getUint8(0);
  const middle = input.getUint8(length >> 1);
  const last = input.getUint8(length - 1);
  const low = ((first << 16) | (middle << 24) | last | (length << 8)) >>> 0;
  const swapped =
    ((low >>> 24) | ((low >>> 8) & 0xff00) | ((low & 0xff00) << 8) | (low << 24)) >>> 0;
  const high = ((swapped << 13) | (swapped >>> 19)) >>> 0;
  const flip = (at: number): bigint => (key(at) & 0xffffffffn) ^ (key(at) >> 32n);
  return [avalanche64(BigInt(low) ^ flip(0)), avalanche64(BigInt(high) ^ flip(8))];
}

function hash4To8(input: DataView, length: number): Halves {
  const value =
    BigInt(input.getUint32(0, true)) | (BigInt(input.getUint32(length - 4, true)) << 32n);
  const product = (value ^ key(16) ^ key(24)) * (PRIME64_1 + BigInt(length << 2));
  let low = product & MASK;
  const high = ((product >> 64n) + (low << 1n)) & MASK;
  low ^= high >> 3n;
  low = ((low ^ (low >> 35n)) * MIX_2) & MASK;
  return [low ^ (low >> 28n), avalanche(high)];
}

function hash9To16(input: DataView, length: number): Halves {
  const first = word(input, 0);
  const last = word(input, length - 8);
  const product = (first ^ last ^ key(32) ^ key(40)) * PRIME64_1;
  const flipped = last ^ key(48) ^ key(56);
  const high = ((product >> 64n) + flipped + (flipped & 0xffffffffn) * (PRIME32_2 - 1n)) & MASK;
  const low = ((product + (BigInt(length - 1) << 54n)) & MASK) ^ swap(high);
  const second = low * PRIME64_2;
  return [avalanche(second & MASK), avalanche(((second >> 64n) + high * PRIME64_2) & MASK)];
}

/** Two sums over pieces of 16 bytes, each piece keyed by its place. */
function hashMiddle(input: DataView, length: number): Halves {
  let low = (BigInt(length) * PRIME64_1) & MASK;
  let high = 0n;
  const mix = (one: number, other: number, at: number): void => {
    low = ((low + piece(input, one, at)) & MASK) ^ sumOf(input, other);
    high = ((high + piece(input, other, at + 16)) & MASK) ^ sumOf(input, one);
  };
  if (length <= 128) {
    for (let pair = Math.floor((length - 1) / 32); pair >= 0; pair--)
      mix(16 * pair, length - 16 * (pair + 1), 32 * pair);
  } else {
    for (let at = 0; at < 128; at += 32) mix(at, at + 16, at);
    low = avalanche(low);
    high = avalanche(high);
    for (let at = 128; at + 32 <= length; at += 32) mix(at, at + 16, at - 128 + 3);
    mix(length - 16, length - 32, 136 - 17 - 16);
  }
  const mixed = low * PRIME64_1 + high * PRIME64_4 + BigInt(length) * PRIME64_2;
  return [avalanche((low + high) & MASK), -avalanche(mixed & MASK) & MASK];
}

function hashLong(input: DataView, length: number): Halves {
  let lanes = [...LANES];
  const accumulate = (at: number, keyAt: number): void => {
    for (let lane = 0; lane < 8; lane++) {
      const value = word(input, at + 8 * lane);
      const keyed = value ^ key(keyAt + 8 * lane);
      lanes[lane ^ 1] = (lanes[lane ^ 1]! + value) & MASK;
      lanes[lane] = (lanes[lane]! + (keyed & 0xffffffffn) * (keyed >> 32n)) & MASK;
    }
  };
  const stripes = Math.floor((length - 1) / STRIPE_BYTES);
  const lastKey = XXH3_SECRET.length - STRIPE_BYTES;
  for (let stripe = 0; stripe < stripes; stripe++) {
    const inRound = stripe % ROUND_STRIPES;
    accumulate(stripe * STRIPE_BYTES, 8 * inRound);
    if (inRound === ROUND_STRIPES - 1)
      lanes = lanes.map((lane, index) => scramble(lane, key(lastKey + 8 * index)));
  }
  accumulate(length - STRIPE_BYTES, lastKey - 7);
  const merge = (at: number, start: bigint): bigint => {
    let sum = start;
    for (let lane = 0; lane < 8; lane += 2)
      sum += fold(lanes[lane]! ^ key(at + 8 * lane), lanes[lane + 1]! ^ key(at + 8 * lane + 8));
    return avalanche(sum & MASK);
  };
  const size = BigInt(length);
  return [merge(11, (size * PRIME64_1) & MASK), merge(lastKey - 11, ~(size * PRIME64_2) & MASK)];
}

function scramble(lane: bigint, keyed: bigint): bigint {
  return ((lane ^ (lane >> 47n) ^ keyed) * PRIME32_1) & MASK;
}
function piece(input: DataView, at: number, keyAt: number): bigint {
  return fold(word(input, at) ^ key(keyAt), word(input, at + 8) ^ key(keyAt + 8));
}
function sumOf(input: DataView, at: number): bigint {
  return (word(input, at) + word(input, at + 8)) & MASK;
}
function fold(left: bigint, right: bigint): bigint {
  const product = left * right;
  return (product & MASK) ^ (product >> 64n);
}
function avalanche(value: bigint): bigint {
  const mixed = ((value ^ (value >> 37n)) * MIX_1) & MASK;
  return mixed ^ (mixed >> 32n);
}
/** The finish of the older XXH64, which inputs of at most 3 bytes have. */
function avalanche64(value: bigint): bigint {
  const once = ((value ^ (value >> 33n)) * PRIME64_2) & MASK;
  const twice = ((once ^ (once >> 29n)) * PRIME64_3) & MASK;
  return twice ^ (twice >> 32n);
}
function swap(value: bigint): bigint {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, value);
  return view.getBigUint64(0, true);
}
function word(input: DataView, at: number): bigint {
  return input.getBigUint64(at, true);
}
function key(at: number): bigint {
  return word(SECRET, at);
}
function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
const SECRET = viewOf(XXH3_SECRET);
