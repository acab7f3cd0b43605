// Block hashes against vLLM's own, over chains of pages in any order; short chains are refused, never read past.
#include "core/block_hash.h"
#include "core/cbor_encoder.h"
#include "core/pickle_encoder.h"
#include "core/sha256.h"

#include <random>

#include "golden_hashes.h"
#include "support.h"

namespace block_hash_test {
namespace {

using namespace mooncake_kv;
using support::Words;

constexpr int32_t PAGES = 6;

/** Token row over pages 4, 0, 2; extras on pages 5, 1; hash row over pages 3, 1. */
class BlockHash : public testing::Test {
 protected:
  BlockHash() : tokens(PAGES * layout::TOKEN_PAGE_WORDS), hashes(PAGES * layout::HASH_PAGE_WORDS) {
    support::chain(tokens, layout::TOKEN_PAGE_WORDS, {4, 0, 2});
    support::chain(tokens, layout::TOKEN_PAGE_WORDS, {5, 1});
    support::chain(hashes, layout::HASH_PAGE_WORDS, {3, 1});
  }
  Hasher hasher(int32_t blockSize) { return Hasher({HashAlgorithm::SHA256_CBOR, blockSize, 0}, support::unhex(golden::NONE_HASH), tokens.memory(), hashes.memory()); }
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
    uint8_t* to = CborEncoder::begin(message.data(), parent, SIZE);
    to = CborEncoder::tokens(to, row.data() + block * SIZE, SIZE);
    word++;
    for (int32_t i = 0; i < EXTRA; i++) *to++ = reinterpret_cast<uint8_t*>(&extra(word + i / 4))[i % 4];
    word += (EXTRA + 3) / 4;
    parent.resize(32);
    sha256InPlace(sha256CompressPortable, message.data(), static_cast<size_t>(to - message.data()), parent.data());
    ASSERT_EQ(hashOf(block), support::hex(parent.data(), 32)) << block;
  }
}

TEST_F(BlockHash, EveryAlgorithmWithLookaheadAcrossPages) {
  constexpr int32_t SIZE = 300, LOOKAHEAD = 5, BLOCKS = 6;
  std::vector<int32_t> row;
  for (int32_t i = 0; i < SIZE * BLOCKS + LOOKAHEAD; i++) {
    row.push_back(i * 977 + 60000);
    write(i, row.back());
  }
  const auto check = [&]<class Encoder, class Digest>(HashAlgorithm algorithm, size_t noneBytes, Encoder, Digest digest) {
    std::vector<uint8_t> parent(noneBytes, 0x5a);
    const Hasher under({algorithm, SIZE, LOOKAHEAD}, parent, tokens.memory(), hashes.memory());
    ASSERT_EQ(under.hash(4, 3, layout::NONE, 0, 2), 2);
    ASSERT_EQ(under.hash(4, 3, layout::NONE, 2, BLOCKS), BLOCKS - 2);
    for (int32_t block = 0; block < BLOCKS; block++) {
      std::vector<uint8_t> message(Encoder::TOKEN_BYTES_MAX * row.size() + 300);
      std::vector<uint8_t> frames;
      uint8_t* to = Encoder::begin(message.data(), parent, SIZE);
      to = Encoder::endTokens(Encoder::tokens(to, row.data() + block * SIZE, SIZE), SIZE);
      to = Encoder::none(Encoder::beginLookahead(to, LOOKAHEAD));
      to = Encoder::endLookahead(Encoder::tokens(to, row.data() + (block + 1) * SIZE, LOOKAHEAD), LOOKAHEAD);
      const std::span<uint8_t> done = Encoder::finish(message.data(), to, frames, Digest::ROOM);
      parent.resize(Digest::BYTES);
      digest(done.data(), done.size(), parent.data());
      ASSERT_EQ(hashOf(block).substr(0, 2 * Digest::BYTES), support::hex(parent.data(), Digest::BYTES)) << block;
    }
  };
  check(HashAlgorithm::SHA256, 32, PickleEncoder(), Sha256Digest());
  check(HashAlgorithm::SHA256_CBOR, 32, CborEncoder(), Sha256Digest());
  check(HashAlgorithm::XXHASH, 32, PickleEncoder(), XxhashDigest());
  check(HashAlgorithm::XXHASH_CBOR, 16, CborEncoder(), XxhashDigest());
}

TEST_F(BlockHash, LongBlocksInSeveralFrames) {
  // The digest is hashlib's over pickle's: a message above 64 KiB has two frames.
  Words many(24 * layout::TOKEN_PAGE_WORDS);
  std::vector<int32_t> pages;
  for (int32_t page = 0; page < 24; page++) pages.push_back(page);
  support::chain(many, layout::TOKEN_PAGE_WORDS, pages);
  constexpr int32_t SIZE = 20000;
  std::vector<int32_t> row;
  for (int32_t i = 0; i < SIZE; i++) {
    row.push_back(100000 + i);
    many[static_cast<size_t>(i / layout::TOKENS_PER_PAGE * layout::TOKEN_PAGE_WORDS + layout::PAGE_HEADER_WORDS +
                             i % layout::TOKENS_PER_PAGE)] = row.back();
  }
  std::vector<uint8_t> parent = support::unhex(golden::NONE_HASH);
  const Hasher large({HashAlgorithm::SHA256, SIZE, 0}, parent, many.memory(), hashes.memory());
  ASSERT_EQ(large.hash(0, 3, layout::NONE, 0, 1), 1);
  EXPECT_EQ(hashOf(0), "92de2519b0d286d5d1a3611217bedd6d4fc848c7d58181340847a3932b62c4c3");
}

TEST_F(BlockHash, RefusesParentsOfOtherLengths) {
  const auto made = [&](HashAlgorithm algorithm, size_t bytes, int32_t lookahead) {
    return support::errorOf([&] { Hasher({algorithm, 16, lookahead}, std::vector<uint8_t>(bytes), tokens.memory(), hashes.memory()); });
  };
  EXPECT_EQ(made(HashAlgorithm::SHA256, 16, 0), "INVALID_VALUE");
  EXPECT_EQ(made(HashAlgorithm::XXHASH, 20, 0), "INVALID_VALUE");
  EXPECT_EQ(made(HashAlgorithm::XXHASH, 16, -1), "INVALID_VALUE");
  EXPECT_EQ(made(HashAlgorithm::XXHASH, 16, Hasher::LOOKAHEAD_MAX + 1), "INVALID_VALUE");
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
}  // namespace block_hash_test
