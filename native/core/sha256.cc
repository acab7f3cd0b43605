#include "core/sha256.h"

#include <bit>
#include <cstring>

#include "core/sha256_constants.h"

namespace mooncake_kv {

namespace {

uint32_t loadBig(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return __builtin_bswap32(word);
}

void storeBig(uint8_t* to, uint32_t word) {
  word = __builtin_bswap32(word);
  std::memcpy(to, &word, 4);
}

static_assert(std::endian::native == std::endian::little, "byte order of the shared layout is little-endian");

}  // namespace

void sha256CompressPortable(uint32_t state[8], const uint8_t* blocks, size_t blockCount) {
  for (; blockCount > 0; blockCount--, blocks += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; i++) w[i] = loadBig(blocks + 4 * i);
    for (int i = 16; i < 64; i++) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + SHA256_ROUND[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
  }
}

Sha256Compress sha256Compress() {
  static const Sha256Compress chosen = sha256CompressHardware() ? sha256CompressHardware() : sha256CompressPortable;
  return chosen;
}

void sha256InPlace(Sha256Compress compress, uint8_t* message, size_t bytes, uint8_t digest[SHA256_BYTES]) {
  const size_t padded = (bytes + 9 + 63) / 64 * 64;
  message[bytes] = 0x80;
  std::memset(message + bytes + 1, 0, padded - bytes - 9);
  const uint64_t bits = uint64_t{bytes} * 8;
  storeBig(message + padded - 8, static_cast<uint32_t>(bits >> 32));
  storeBig(message + padded - 4, static_cast<uint32_t>(bits));
  uint32_t state[8];
  std::memcpy(state, SHA256_START, sizeof state);
  compress(state, message, padded / 64);
  for (int i = 0; i < 8; i++) storeBig(digest + 4 * i, state[i]);
}

}  // namespace mooncake_kv
