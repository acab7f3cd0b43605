// Copies past the cache equal memcpy at every alignment and length, and write nothing beside their range.
#include "core/copy.h"

#include "support.h"

namespace copy_test {
namespace {

using namespace mooncake_kv;

TEST(Copy, EveryAlignmentAndLengthAroundTheBorders) {
  constexpr size_t ROOM = 20'000;
  std::vector<uint8_t> from(ROOM), to(ROOM), expected(ROOM);
  for (size_t i = 0; i < ROOM; i++) from[i] = static_cast<uint8_t>(i * 131 + i / 251);
  for (const size_t length : {0, 1, 31, 4095, 4096, 4097, 4223, 4224, 8192, 16'383, 16'384, 16'511, 19'000}) {
    for (size_t shift = 0; shift < 70; shift += 3) {
      std::fill(to.begin(), to.end(), uint8_t{0xee});
      std::fill(expected.begin(), expected.end(), uint8_t{0xee});
      std::memcpy(expected.data() + shift, from.data() + 2 * shift % 64, length);
      copyPastCache(to.data() + shift, from.data() + 2 * shift % 64, length);
      ASSERT_EQ(to, expected) << length << " bytes at " << shift;
    }
  }
}

}  // namespace
}  // namespace copy_test
