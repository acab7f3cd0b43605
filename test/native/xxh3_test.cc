// XXH3 with 128 bits against digests of the reference library, by both loops, at every length where its rule changes.
#include "core/xxh3.h"

#include <algorithm>

#include "golden_encodings.h"
#include "support.h"

namespace xxh3_test {
namespace {

using namespace mooncake_kv;

std::vector<uint8_t> messageOf(size_t bytes) {
  std::vector<uint8_t> message(bytes);  // Exactly that long, so that a sanitizer sees every read past its end.
  for (size_t i = 0; i < bytes; i++) message[i] = static_cast<uint8_t>(i * i * 7 + i * 13 + bytes);
  return message;
}

std::string digest(Xxh3Accumulate accumulate, const std::vector<uint8_t>& message) {
  uint8_t out[XXH3_BYTES];
  xxh3Digest(accumulate, message.data(), message.size(), out);
  return support::hex(out, sizeof out);
}

TEST(Xxh3, PortableGivesKnownDigests) {
  for (const golden::Xxh3Case& one : golden::XXH3) EXPECT_EQ(digest(xxh3AccumulatePortable, messageOf(one.bytes)), one.digest) << one.bytes;
}

TEST(Xxh3, Avx2GivesKnownDigests) {
  if (xxh3AccumulateAvx2() == nullptr) GTEST_SKIP() << "this machine has no AVX2";
  for (const golden::Xxh3Case& one : golden::XXH3) EXPECT_EQ(digest(xxh3AccumulateAvx2(), messageOf(one.bytes)), one.digest) << one.bytes;
}

TEST(Xxh3, PiecesGiveTheDigestOfTheWhole) {
  const std::vector<std::vector<size_t>> pieces = {{1}, {63, 1}, {64}, {1023, 1}, {1024}, {1025}, {4096, 7}, {100'000}, {1, 2048, 3}};
  for (size_t bytes = 0; bytes < 6000; bytes += bytes < 2200 ? 1 : 97) {
    const std::vector<uint8_t> message = messageOf(bytes);
    for (const std::vector<size_t>& lengths : pieces) {
      Xxh3Stream stream;
      size_t at = 0;
      for (size_t nth = 0; at < bytes; nth++) {
        const size_t taken = std::min(lengths[nth % lengths.size()], bytes - at);
        stream.update(message.data() + at, taken);
        at += taken;
      }
      uint8_t out[XXH3_BYTES];
      stream.digest(out);
      ASSERT_EQ(support::hex(out, sizeof out), digest(xxh3Accumulate(), message)) << bytes << " by " << lengths[0];
    }
  }
}

TEST(Xxh3, AStreamBeginsAnewAfterItsDigest) {
  Xxh3Stream stream;
  for (const size_t bytes : {5000, 10, 0, 1500}) {
    const std::vector<uint8_t> message = messageOf(bytes);
    stream.update(message.data(), message.size());
    uint8_t out[XXH3_BYTES];
    stream.digest(out);
    EXPECT_EQ(support::hex(out, sizeof out), digest(xxh3Accumulate(), message));
  }
}

TEST(Xxh3, BothAgreeAtEveryLength) {
  if (xxh3AccumulateAvx2() == nullptr) GTEST_SKIP() << "this machine has no AVX2";
  for (size_t bytes = 0; bytes < 2200; bytes++) {
    const std::vector<uint8_t> message = messageOf(bytes);
    ASSERT_EQ(digest(xxh3AccumulatePortable, message), digest(xxh3AccumulateAvx2(), message)) << bytes;
  }
}

}  // namespace
}  // namespace xxh3_test
