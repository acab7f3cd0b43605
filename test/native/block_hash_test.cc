// Block hashes against vLLM's own, over chains of pages in any order; short chains are refused, never read past.
#include "core/block_hash.h"
#include "core/sha256.h"

#include <random>

#include "golden_hashes.h"
#include "support.h"

using namespace mooncake_kv;
using support::Words;

namespace {

constexpr int32_t PAGES = 6;

/** Token row over pages 4, 0, 2; extras on pages 5, 1; hash row over pages 3, 1. */
class BlockHash : public testing::Test {
 protected:
  BlockHash() : tokens(PAGES * layout::TOKEN_PAGE_WORDS), hashes(PAGES * layout::HASH_PAGE_WORDS) {
    support::chain(tokens, layout::TOKEN_PAGE_WORDS, {4, 0, 2});
    support::chain(tokens, layout::TOKEN_PAGE_WORDS, {5, 1});
    support::chain(hashes, layout::HASH_PAGE_WORDS, {3, 1});
  }
  Hasher hasher(int32_t blockSize) { return Hasher(blockSize, support::unhex(golden::NONE_HASH), tokens.memory(), hashes.memory()); }
  void write(int64_t index, int64_t token) {
    static constexpr int32_t pages[] = {4, 0, 2};
    const int64_t page = pages[index / layout::TOKENS_PER_PAGE];
    tokens[static_cast<size_t>(page * layout::TOKEN_PAGE_WORDS + layout::PAGE_HEADER_WORDS + index % layout::TOKENS_PER_PAGE)] =
        static_cast<int32_t>(static_cast<uint32_t>(token));
  }
  void write(const std::vector<int64_t>& row) {
    for (size_t i = 0; i < row.size(); i++) write(static_cast<int64_t>(i), row[i]);
  }
  std::string hashOf(int32_t block) {
    const int32_t page = block < layout::HASHES_PER_PAGE ? 3 : 1;
    return support::hex(hashAt(*hashes.memory(), page * layout::HASHES_PER_PAGE + block % layout::HASHES_PER_PAGE), 32);
  }
  int32_t& extra(int32_t word) {
    const int32_t page = word < layout::TOKENS_PER_PAGE ? 5 : 1;
    return tokens[static_cast<size_t>(page * layout::TOKEN_PAGE_WORDS + layout::PAGE_HEADER_WORDS + word % layout::TOKENS_PER_PAGE)];
  }

  Words tokens;
  Words hashes;
};

TEST_F(BlockHash, IntegersOfEverySize) {
  write(golden::EDGE_TOKENS);
  const auto blocks = static_cast<int32_t>(golden::EDGE_HASHES.size());
  ASSERT_EQ(hasher(1).hash(4, 3, layout::NONE, 0, blocks), blocks);
  for (int32_t block = 0; block < blocks; block++) {
    EXPECT_EQ(hashOf(block), golden::EDGE_HASHES[static_cast<size_t>(block)]) << block;
  }
}

TEST_F(BlockHash, BlocksOf16And64) {
  write(golden::TOKENS_65);
  ASSERT_EQ(hasher(16).hash(4, 3, layout::NONE, 0, 4), 4);
  for (int32_t block = 0; block < 4; block++) EXPECT_EQ(hashOf(block), golden::HASHES_65[static_cast<size_t>(block)]);
  write(golden::TOKENS_128);
  ASSERT_EQ(hasher(64).hash(4, 3, layout::NONE, 0, 2), 2);
  for (int32_t block = 0; block < 2; block++) EXPECT_EQ(hashOf(block), golden::HASHES_128[static_cast<size_t>(block)]);
}

TEST_F(BlockHash, GoesOnFromAnyBlock) {
  write(golden::TOKENS_65);
  const Hasher sixteen = hasher(16);
  EXPECT_EQ(sixteen.hash(4, 3, layout::NONE, 0, 1), 1);
  EXPECT_EQ(sixteen.hash(4, 3, layout::NONE, 1, 3), 2);
  EXPECT_EQ(sixteen.hash(4, 3, layout::NONE, 3, 3), 0);
  EXPECT_EQ(sixteen.hash(4, 3, layout::NONE, 3, 4), 1);
  EXPECT_EQ(hashOf(3), golden::HASHES_65[3]);
}

TEST_F(BlockHash, ExtraElements) {
  write(golden::SALT_TOKENS);
  const std::vector<uint8_t> salt = support::unhex(golden::SALT_EXTRA);
  extra(0) = static_cast<int32_t>(salt.size());
  std::memcpy(&extra(1), salt.data(), salt.size());
  const auto words = static_cast<int32_t>((salt.size() + 3) / 4);
  extra(1 + words) = 0;
  extra(2 + words) = 0;
  ASSERT_EQ(hasher(16).hash(4, 3, 5, 0, 2), 2);
  ASSERT_EQ(hasher(16).hash(4, 3, 5, 2, 3), 1);
  for (int32_t block = 0; block < 3; block++) EXPECT_EQ(hashOf(block), golden::SALT_HASHES[static_cast<size_t>(block)]);
}

TEST_F(BlockHash, BlocksAndExtrasThatStraddlePagesEqualOneRowInOnePiece) {
  // 2500 tokens in blocks of 100: blocks 10 and 20 lie on two pages each. Extra elements of 100 bytes straddle as well.
  std::mt19937 random(3);
  constexpr int32_t BLOCKS = 25, SIZE = 100, EXTRA = 185;
  std::vector<int32_t> row;
  for (int32_t i = 0; i < BLOCKS * SIZE; i++) {
    row.push_back(static_cast<int32_t>(random() >> (i % 4 * 8)));
    write(i, static_cast<uint32_t>(row.back()));
  }
  int32_t word = 0;
  for (int32_t block = 0; block < BLOCKS; block++) {
    extra(word++) = EXTRA;
    for (int32_t i = 0; i < (EXTRA + 3) / 4; i++) extra(word++) = static_cast<int32_t>(random());
  }
  ASSERT_GT(word, layout::TOKENS_PER_PAGE);
  ASSERT_EQ(hasher(SIZE).hash(4, 3, 5, 0, BLOCKS), BLOCKS);

  std::vector<uint8_t> parent = support::unhex(golden::NONE_HASH);
  word = 0;
  for (int32_t block = 0; block < BLOCKS; block++) {
    std::vector<uint8_t> message(5 * SIZE + EXTRA + 200);
    uint8_t* to = encodeBlockHead(message.data(), parent, SIZE);
    to = encodeTokens(to, row.data() + block * SIZE, SIZE);
    word++;
    for (int32_t i = 0; i < EXTRA; i++) *to++ = reinterpret_cast<uint8_t*>(&extra(word + i / 4))[i % 4];
    word += (EXTRA + 3) / 4;
    parent.resize(32);
    sha256InPlace(sha256CompressPortable, message.data(), static_cast<size_t>(to - message.data()), parent.data());
    ASSERT_EQ(hashOf(block), support::hex(parent.data(), 32)) << block;
  }
}

TEST_F(BlockHash, ShortChainsAreRefused) {
  const Hasher one = hasher(1);
  std::string field;
  EXPECT_EQ(support::errorOf([&] { one.hash(4, 3, layout::NONE, 0, 3 * layout::TOKENS_PER_PAGE + 1); }, &field), "INVALID_VALUE");
  EXPECT_EQ(field, "hashPage");
  EXPECT_EQ(support::errorOf([&] { hasher(100).hash(4, 3, layout::NONE, 0, 31); }, &field), "INVALID_VALUE");
  EXPECT_EQ(field, "tokenPage");
  EXPECT_EQ(support::errorOf([&] { one.hash(layout::NONE, 3, layout::NONE, 0, 1); }), "INVALID_VALUE");
  EXPECT_EQ(support::errorOf([&] { one.hash(4, PAGES, layout::NONE, 0, 1); }), "INVALID_VALUE");
  EXPECT_EQ(support::errorOf([&] { one.hash(4, 3, layout::NONE, 2, 1); }), "INVALID_VALUE");
  EXPECT_EQ(support::errorOf([&] { one.hash(4, 3, layout::NONE, -1, 1); }), "INVALID_VALUE");
  extra(0) = -5;
  EXPECT_EQ(support::errorOf([&] { one.hash(4, 3, 5, 0, 1); }, &field), "INVALID_VALUE");
  EXPECT_EQ(field, "extrasPage");
}

TEST_F(BlockHash, EndedOwnerIsRefused) {
  const Hasher one = hasher(1);
  tokens.memory()->closeAndWait();
  EXPECT_EQ(support::errorOf([&] { one.hash(4, 3, layout::NONE, 0, 1); }), "CLOSED");
}

}  // namespace
