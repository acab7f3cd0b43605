// Keys and addresses of entries; layouts that would reach outside memory are refused when registered.
#include "core/key_space.h"

#include "support.h"

namespace key_space_test {
namespace {

using namespace mooncake_kv;
using support::Words;

class KeySpaceTest : public testing::Test {
 protected:
  KeySpaceTest() : hashes(2 * layout::HASH_PAGE_WORDS), region(Memory::createMemfd(4096)) {
    options.hashes = hashes.memory();
    options.prefixes = {"a", "org/model@tp1"};
    options.blockCount = 4;
    options.groups = {{{region, 0, 512, 256}, {region, 2048, 256, 100}}, {{region, 3072, 64, 64}}};
  }
  std::string refusal(const std::function<void()>& change) {
    change();
    std::string field;
    EXPECT_EQ(support::errorOf([&] { KeySpace made(options); }, &field), "INVALID_VALUE");
    return field;
  }

  Words hashes;
  std::shared_ptr<Memory> region;
  KeySpace::Options options;
};

TEST_F(KeySpaceTest, KeyIsPrefixAtHex) {
  auto* digest = const_cast<uint8_t*>(hashAt(*hashes.memory(), layout::HASHES_PER_PAGE + 1));
  EXPECT_EQ(digest, hashes.memory()->data() + 4 * (layout::HASH_PAGE_WORDS + layout::PAGE_HEADER_WORDS + layout::HASH_STRIDE_WORDS));
  for (int i = 0; i < 32; i++) digest[i] = static_cast<uint8_t>(i * 8 + 1);
  std::string text;
  const KeySpace space(options);
  ASSERT_TRUE(space.key(1, layout::HASHES_PER_PAGE + 1, text));
  EXPECT_EQ(text, "org/model@tp1@0109111921293139414951596169717981899199a1a9b1b9c1c9d1d9e1e9f1f9");
  options.hashBytes = 16;
  ASSERT_TRUE(KeySpace(options).key(0, layout::HASHES_PER_PAGE + 1, text));
  EXPECT_EQ(text, "a@01091119212931394149515961697179");
}

TEST_F(KeySpaceTest, NumbersOutOfRangeNameNothing) {
  const KeySpace space(options);
  std::string text;
  EXPECT_TRUE(space.key(0, 2 * layout::HASHES_PER_PAGE - 1, text));
  EXPECT_FALSE(space.key(0, 2 * layout::HASHES_PER_PAGE, text));
  EXPECT_FALSE(space.key(0, -1, text));
  EXPECT_FALSE(space.key(2, 0, text));
  EXPECT_FALSE(space.key(-1, 0, text));
  EXPECT_TRUE(space.hasBlock(1, 3));
  EXPECT_FALSE(space.hasBlock(1, 4));
  EXPECT_FALSE(space.hasBlock(1, -1));
  EXPECT_FALSE(space.hasBlock(2, 0));
  EXPECT_FALSE(space.hasBlock(-1, 0));
}

TEST_F(KeySpaceTest, SegmentsInValueOrder) {
  const KeySpace space(options);
  EXPECT_EQ(space.valueBytes(0), 356u);
  EXPECT_EQ(space.segments(0)[1].at(3), region->data() + 2048 + 3 * 256);
  EXPECT_EQ(space.valueBytes(1), 64u);
}

TEST_F(KeySpaceTest, ASegmentMayEndWithItsRegionAndNotBeyond) {
  options.groups = {{{region, 4096 - 3 * 512 - 256, 512, 256}}};
  EXPECT_EQ(support::errorOf([&] { KeySpace made(options); }), "");
  EXPECT_EQ(refusal([&] { options.groups[0][0].offset++; }), "groups[0][0].offset");
  EXPECT_EQ(refusal([&] { options.groups[0][0].offset = UINT64_MAX - 10; }), "groups[0][0].offset");
  options.groups[0][0].offset = 0;
  EXPECT_EQ(refusal([&] { options.groups[0][0].strideBytes = uint64_t{1} << 62; }), "groups[0][0].offset");
}

TEST_F(KeySpaceTest, SenselessLayoutsAreRefused) {
  EXPECT_EQ(refusal([&] { options.groups[0][0].strideBytes = 255; }), "groups[0][0].strideBytes");
  EXPECT_EQ(refusal([&] { options.groups = {{}}; }), "groups[0]");
  EXPECT_EQ(refusal([&] { options.groups = {{{region, 0, 512, 0}}}; }), "groups[0][0].bytes");
  EXPECT_EQ(refusal([&] { options.hashBytes = 20; }), "hashBytes");
  options.hashBytes = 32;
  EXPECT_EQ(refusal([&] { options.blockCount = 0; }), "blockCount");
  EXPECT_EQ(refusal([&] { options.groups.resize(17); options.blockCount = 1; }), "groups");
}

TEST_F(KeySpaceTest, EntersAllMemoryOrNone) {
  Words pinned(64);
  options.groups[1][0] = {pinned.memory(), 0, 64, 64};
  const KeySpace space(options);
  ASSERT_TRUE(space.enter());
  space.leave();
  pinned.memory()->closeAndWait();
  EXPECT_FALSE(space.enter());
  // Would hang if the refused entry had stayed inside the hashes.
  hashes.memory()->closeAndWait();
}

}  // namespace
}  // namespace key_space_test
