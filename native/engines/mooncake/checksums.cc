#include "engines/mooncake/checksums.h"

#include "core/key_names.h"
#include "core/xxh3.h"

namespace mooncake_kv::mooncake {

std::string checksumMarkOf(std::string_view key) { return std::string(key) + std::string(CHECKSUM_MARK); }

std::string checksumKeyOf(std::string_view key, const uint8_t digest[16]) {
  static constexpr char HEX[] = "0123456789abcdef";
  std::string text = checksumMarkOf(key);
  text.reserve(text.size() + 1 + 2 * XXH3_BYTES);
  text += '=';
  for (size_t at = 0; at < XXH3_BYTES; at++) {
    text += HEX[digest[at] >> 4];
    text += HEX[digest[at] & 15];
  }
  return text;
}

void digestValue(const PoolRequest& request, uint32_t index, uint8_t digest[16]) {
  Xxh3Stream stream;
  for (const PoolSegment& segment : request.segments(index)) stream.update(segment.address(), segment.bytes);
  stream.digest(digest);
}

}  // namespace mooncake_kv::mooncake
