#include "core/xxh3.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mooncake_kv {

namespace {

static_assert(std::endian::native == std::endian::little, "byte order of the shared layout is little-endian");

constexpr uint64_t PRIME32_1 = 0x9e3779b1, PRIME32_2 = 0x85ebca77, PRIME32_3 = 0xc2b2ae3d;
constexpr uint64_t PRIME64_1 = 0x9e3779b185ebca87, PRIME64_2 = 0xc2b2ae3d27d4eb4f, PRIME64_3 = 0x165667b19e3779f9;
constexpr uint64_t PRIME64_4 = 0x85ebca77c2b2ae63, PRIME64_5 = 0x27d4eb2f165667c5;
constexpr uint64_t MIX_1 = 0x165667919e3779f9, MIX_2 = 0x9fb21c651e98df25;

constexpr size_t STRIPE_BYTES = 64;
constexpr size_t STRIPES_PER_ROUND = (XXH3_SECRET_BYTES - STRIPE_BYTES) / 8;
constexpr size_t ROUND_BYTES = STRIPES_PER_ROUND * STRIPE_BYTES;
/** Where the key of the last 16 bytes of inputs of 129 to 240 bytes lies. */
constexpr size_t MIDDLE_LAST_SECRET = 136 - 17 - 16;

using Wide = unsigned __int128;
struct Hash {
  uint64_t low;
  uint64_t high;
};

inline uint32_t load32(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return word;
}
inline uint64_t load64(const uint8_t* from) {
  uint64_t word;
  std::memcpy(&word, from, 8);
  return word;
}
inline uint64_t secret64(size_t at) { return load64(XXH3_SECRET + at); }

inline uint64_t avalanche(uint64_t hash) {
  hash = (hash ^ hash >> 37) * MIX_1;
  return hash ^ hash >> 32;
}
/** The finish of the older XXH64, which inputs of at most 3 bytes have. */
inline uint64_t avalanche64(uint64_t hash) {
  hash = (hash ^ hash >> 33) * PRIME64_2;
  hash = (hash ^ hash >> 29) * PRIME64_3;
  return hash ^ hash >> 32;
}
inline uint64_t fold(uint64_t left, uint64_t right) {
  const Wide product = Wide{left} * right;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

Hash hashUpTo3(const uint8_t* in, size_t bytes) {
  if (bytes == 0) return {avalanche64(secret64(64) ^ secret64(72)), avalanche64(secret64(80) ^ secret64(88))};
  const uint32_t low = uint32_t{in[0]} << 16 | uint32_t{in[bytes >> 1]} << 24 | in[bytes - 1] | static_cast<uint32_t>(bytes) << 8;
  const uint32_t high = std::rotl(__builtin_bswap32(low), 13);
  const uint32_t flipLow = load32(XXH3_SECRET) ^ load32(XXH3_SECRET + 4);
  const uint32_t flipHigh = load32(XXH3_SECRET + 8) ^ load32(XXH3_SECRET + 12);
  return {avalanche64(low ^ flipLow), avalanche64(high ^ flipHigh)};
}

Hash hash4To8(const uint8_t* in, size_t bytes) {
  const uint64_t input = load32(in) + (uint64_t{load32(in + bytes - 4)} << 32);
  const Wide product = Wide{input ^ secret64(16) ^ secret64(24)} * (PRIME64_1 + (bytes << 2));
  uint64_t low = static_cast<uint64_t>(product);
  const uint64_t high = static_cast<uint64_t>(product >> 64) + (low << 1);
  low ^= high >> 3;
  low = (low ^ low >> 35) * MIX_2;
  return {low ^ low >> 28, avalanche(high)};
}

Hash hash9To16(const uint8_t* in, size_t bytes) {
  const uint64_t first = load64(in);
  uint64_t last = load64(in + bytes - 8);
  const Wide product = Wide{first ^ last ^ secret64(32) ^ secret64(40)} * PRIME64_1;
  uint64_t low = static_cast<uint64_t>(product) + (static_cast<uint64_t>(bytes - 1) << 54);
  last ^= secret64(48) ^ secret64(56);
  const uint64_t high = static_cast<uint64_t>(product >> 64) + last + (last & 0xffffffff) * (PRIME32_2 - 1);
  low ^= __builtin_bswap64(high);
  const Wide second = Wide{low} * PRIME64_2;
  return {avalanche(static_cast<uint64_t>(second)), avalanche(static_cast<uint64_t>(second >> 64) + high * PRIME64_2)};
}

inline uint64_t mix16(const uint8_t* in, size_t key) { return fold(load64(in) ^ secret64(key), load64(in + 8) ^ secret64(key + 8)); }
inline void mix32(Hash& hash, const uint8_t* one, const uint8_t* other, size_t key) {
  hash.low = (hash.low + mix16(one, key)) ^ (load64(other) + load64(other + 8));
  hash.high = (hash.high + mix16(other, key + 16)) ^ (load64(one) + load64(one + 8));
}
Hash finishMiddle(Hash hash, size_t bytes) {
  const uint64_t high = hash.low * PRIME64_1 + hash.high * PRIME64_4 + bytes * PRIME64_2;
  return {avalanche(hash.low + hash.high), 0 - avalanche(high)};
}

Hash hash17To128(const uint8_t* in, size_t bytes) {
  Hash hash = {bytes * PRIME64_1, 0};
  for (size_t pair = (bytes - 1) / 32 + 1; pair-- > 0;) mix32(hash, in + 16 * pair, in + bytes - 16 * (pair + 1), 32 * pair);
  return finishMiddle(hash, bytes);
}

Hash hash129To240(const uint8_t* in, size_t bytes) {
  Hash hash = {bytes * PRIME64_1, 0};
  for (size_t at = 0; at < 128; at += 32) mix32(hash, in + at, in + at + 16, at);
  hash = {avalanche(hash.low), avalanche(hash.high)};
  for (size_t at = 128; at + 32 <= bytes; at += 32) mix32(hash, in + at, in + at + 16, at - 128 + 3);
  mix32(hash, in + bytes - 16, in + bytes - 32, MIDDLE_LAST_SECRET);
  return finishMiddle(hash, bytes);
}

uint64_t mergeLanes(const uint64_t lanes[8], size_t key, uint64_t start) {
  for (size_t pair = 0; pair < 4; pair++) {
    start += fold(lanes[2 * pair] ^ secret64(key + 16 * pair), lanes[2 * pair + 1] ^ secret64(key + 16 * pair + 8));
  }
  return avalanche(start);
}

constexpr uint64_t FIRST_LANES[8] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};

void takeRound(Xxh3Accumulate accumulate, uint64_t lanes[8], const uint8_t* stripes) {
  accumulate(lanes, stripes, STRIPES_PER_ROUND, XXH3_SECRET);
  for (size_t lane = 0; lane < 8; lane++) {
    lanes[lane] = (lanes[lane] ^ lanes[lane] >> 47 ^ secret64(XXH3_SECRET_BYTES - STRIPE_BYTES + 8 * lane)) * PRIME32_1;
  }
}

/** `rest`: what comes after the rounds, at least one byte; what stands before it in memory belongs to the message too. */
Hash finishLong(Xxh3Accumulate accumulate, uint64_t lanes[8], const uint8_t* rest, size_t restBytes, size_t bytes) {
  accumulate(lanes, rest, (restBytes - 1) / STRIPE_BYTES, XXH3_SECRET);
  accumulate(lanes, rest + restBytes - STRIPE_BYTES, 1, XXH3_SECRET + XXH3_SECRET_BYTES - STRIPE_BYTES - 7);
  return {mergeLanes(lanes, 11, bytes * PRIME64_1), mergeLanes(lanes, XXH3_SECRET_BYTES - STRIPE_BYTES - 11, ~(bytes * PRIME64_2))};
}

Hash hashLong(Xxh3Accumulate accumulate, const uint8_t* in, size_t bytes) {
  alignas(64) uint64_t lanes[8];
  std::memcpy(lanes, FIRST_LANES, sizeof lanes);
  const size_t rounds = (bytes - 1) / ROUND_BYTES;
  for (size_t round = 0; round < rounds; round++) takeRound(accumulate, lanes, in + round * ROUND_BYTES);
  const size_t done = rounds * ROUND_BYTES;
  return finishLong(accumulate, lanes, in + done, bytes - done, bytes);
}

void writeDigest(const Hash& hash, uint8_t digest[XXH3_BYTES]) {
  const uint64_t high = __builtin_bswap64(hash.high), low = __builtin_bswap64(hash.low);
  std::memcpy(digest, &high, 8);
  std::memcpy(digest + 8, &low, 8);
}

}  // namespace

void xxh3AccumulatePortable(uint64_t lanes[8], const uint8_t* stripes, size_t stripeCount, const uint8_t* secret) {
  for (; stripeCount > 0; stripeCount--, stripes += STRIPE_BYTES, secret += 8) {
    for (size_t lane = 0; lane < 8; lane++) {
      const uint64_t value = load64(stripes + 8 * lane);
      const uint64_t keyed = value ^ load64(secret + 8 * lane);
      lanes[lane ^ 1] += value;
      lanes[lane] += (keyed & 0xffffffff) * (keyed >> 32);
    }
  }
}

Xxh3Accumulate xxh3Accumulate() {
  static const Xxh3Accumulate chosen = xxh3AccumulateAvx2() ? xxh3AccumulateAvx2() : xxh3AccumulatePortable;
  return chosen;
}

void xxh3Digest(Xxh3Accumulate accumulate, const uint8_t* message, size_t bytes, uint8_t digest[XXH3_BYTES]) {
  const Hash hash = bytes <= 3     ? hashUpTo3(message, bytes)
                    : bytes <= 8   ? hash4To8(message, bytes)
                    : bytes <= 16  ? hash9To16(message, bytes)
                    : bytes <= 128 ? hash17To128(message, bytes)
                    : bytes <= 240 ? hash129To240(message, bytes)
                                   : hashLong(accumulate, message, bytes);
  writeDigest(hash, digest);
}

void Xxh3Stream::begin() {
  begun_ = true;
  total_ = held_ = 0;
  std::memcpy(lanes_, FIRST_LANES, sizeof lanes_);
}

void Xxh3Stream::update(const uint8_t* piece, size_t bytes) {
  if (!begun_) begin();
  total_ += bytes;
  uint8_t* held = buffer_ + STRIPE_BYTES;
  while (bytes > 0) {
    if (held_ == 0 && bytes > ROUND_BYTES) {
      // Straight out of the piece.
      for (; bytes > ROUND_BYTES; piece += ROUND_BYTES, bytes -= ROUND_BYTES) takeRound(accumulate_, lanes_, piece);
      std::memcpy(buffer_, piece - STRIPE_BYTES, STRIPE_BYTES);
    }
    if (held_ == ROUND_BYTES) {
      takeRound(accumulate_, lanes_, held);
      std::memcpy(buffer_, held + ROUND_BYTES - STRIPE_BYTES, STRIPE_BYTES);
      held_ = 0;
      continue;
    }
    const size_t taken = std::min(bytes, ROUND_BYTES - held_);
    std::memcpy(held + held_, piece, taken);
    held_ += taken;
    piece += taken;
    bytes -= taken;
  }
}

void Xxh3Stream::digest(uint8_t digest[XXH3_BYTES]) {
  if (!begun_) begin();
  begun_ = false;
  const uint8_t* held = buffer_ + STRIPE_BYTES;
  // No round was taken yet: all of it is here.
  if (total_ <= ROUND_BYTES) return xxh3Digest(accumulate_, held, total_, digest);
  writeDigest(finishLong(accumulate_, lanes_, held, held_, total_), digest);
}

}  // namespace mooncake_kv
