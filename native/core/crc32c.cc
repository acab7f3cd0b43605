#include "core/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mooncake_kv {

namespace {

constexpr uint32_t POLYNOMIAL_REFLECTED = 0x82f63b78;

constexpr std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; bit++) remainder = (remainder >> 1) ^ ((remainder & 1) ? POLYNOMIAL_REFLECTED : 0);
    table[byte] = remainder;
  }
  return table;
}
constexpr std::array<uint32_t, 256> TABLE = makeTable();

uint32_t fold(const uint32_t quarters[4]) { return crc32c(0, reinterpret_cast<const uint8_t*>(quarters), 16); }

uint32_t valueChecksumPortable(const uint8_t* data, size_t bytes) {
  const size_t quarter = bytes / 32 * 8;
  uint32_t crcs[4];
  for (size_t i = 0; i < 4; i++) crcs[i] = crc32c(0, data + i * quarter, i < 3 ? quarter : bytes - 3 * quarter);
  return fold(crcs);
}

#if defined(__x86_64__)

inline uint64_t loadWord(const uint8_t* from) {
  uint64_t word;
  std::memcpy(&word, from, 8);
  return word;
}

__attribute__((target("sse4.2"))) uint32_t crc32cHardware(uint32_t before, const uint8_t* data, size_t bytes) {
  uint64_t crc = ~before;
  for (; bytes >= 8; bytes -= 8, data += 8) {
    crc = _mm_crc32_u64(crc, loadWord(data));
  }
  uint32_t tail = static_cast<uint32_t>(crc);
  for (; bytes > 0; bytes--) tail = _mm_crc32_u8(tail, *data++);
  return ~tail;
}

__attribute__((target("sse4.2"))) uint32_t valueChecksumHardware(const uint8_t* data, size_t bytes) {
  const size_t quarter = bytes / 32 * 8;
  const uint8_t* at = data;
  uint64_t a = ~0u, b = ~0u, c = ~0u, d = ~0u;
  for (const uint8_t* end = data + quarter; at < end; at += 8) {
    a = _mm_crc32_u64(a, loadWord(at));
    b = _mm_crc32_u64(b, loadWord(at + quarter));
    c = _mm_crc32_u64(c, loadWord(at + 2 * quarter));
    d = _mm_crc32_u64(d, loadWord(at + 3 * quarter));
  }
  const uint32_t last = crc32cHardware(~static_cast<uint32_t>(d), data + 4 * quarter, bytes - 4 * quarter);
  const uint32_t crcs[4] = {~static_cast<uint32_t>(a), ~static_cast<uint32_t>(b), ~static_cast<uint32_t>(c), last};
  return fold(crcs);
}

bool hasInstruction() {
  static const bool has = __builtin_cpu_supports("sse4.2");
  return has;
}

#endif

}  // namespace

uint32_t crc32cPortable(uint32_t before, const uint8_t* data, size_t bytes) {
  uint32_t crc = ~before;
  for (; bytes > 0; bytes--) crc = (crc >> 8) ^ TABLE[(crc ^ *data++) & 0xff];
  return ~crc;
}

uint32_t crc32c(uint32_t before, const uint8_t* data, size_t bytes) {
#if defined(__x86_64__)
  if (hasInstruction()) return crc32cHardware(before, data, bytes);
#endif
  return crc32cPortable(before, data, bytes);
}

uint32_t valueChecksum(const uint8_t* data, size_t bytes) {
#if defined(__x86_64__)
  if (hasInstruction()) return valueChecksumHardware(data, bytes);
#endif
  return valueChecksumPortable(data, bytes);
}

}  // namespace mooncake_kv
