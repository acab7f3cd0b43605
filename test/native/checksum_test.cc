// CRC-32C against its published check value; value checksums notice every single flipped bit.
#include "core/crc32c.h"
#include "support.h"

namespace checksum_test {
namespace {

using namespace mooncake_kv;

const uint8_t* bytes(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

TEST(Checksum, CheckValueOfTheStandard) {
  EXPECT_EQ(crc32c(0, bytes("123456789"), 9), 0xe3069283u);
  EXPECT_EQ(crc32cPortable(0, bytes("123456789"), 9), 0xe3069283u);
}

TEST(Checksum, HardwareAndPortableAgreeAndGoOnFromAPrefix) {
  std::string text;
  for (int length = 0; length < 100; length++) {
    ASSERT_EQ(crc32c(0, bytes(text), text.size()), crc32cPortable(0, bytes(text), text.size())) << length;
    const size_t cut = text.size() / 3;
    ASSERT_EQ(crc32c(crc32c(0, bytes(text), cut), bytes(text) + cut, text.size() - cut), crc32c(0, bytes(text), text.size()));
    text += static_cast<char>(length * 73);
  }
}

TEST(Checksum, EveryFlippedBitShows) {
  for (const size_t size : {1, 31, 32, 33, 257}) {
    std::vector<uint8_t> value(size, 0x5a);
    const uint32_t before = valueChecksum(value.data(), size);
    for (size_t bit = 0; bit < 8 * size; bit++) {
      value[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      ASSERT_NE(valueChecksum(value.data(), size), before) << size << " bytes, bit " << bit;
      value[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    }
    ASSERT_EQ(valueChecksum(value.data(), size), before);
  }
}

}  // namespace
}  // namespace checksum_test
