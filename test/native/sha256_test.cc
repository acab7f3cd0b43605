// Both compression functions against digests of FIPS 180-4 and against each other at every length around block borders.
#include "core/sha256.h"

#include "support.h"

namespace sha256_test {
namespace {

using namespace mooncake_kv;

std::string digest(Sha256Compress compress, const std::string& message) {
  std::vector<uint8_t> buffer(message.begin(), message.end());
  buffer.resize(message.size() + SHA256_PADDING_MAX);
  uint8_t out[SHA256_BYTES];
  sha256InPlace(compress, buffer.data(), message.size(), out);
  return support::hex(out, sizeof out);
}

void checkKnown(Sha256Compress compress) {
  EXPECT_EQ(digest(compress, ""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest(compress, "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest(compress, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest(compress, std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PortableGivesKnownDigests) { checkKnown(sha256CompressPortable); }

TEST(Sha256, HardwareGivesKnownDigests) {
  if (sha256CompressHardware() == nullptr) GTEST_SKIP() << "this machine has no SHA extensions";
  checkKnown(sha256CompressHardware());
}

TEST(Sha256, BothAgreeAtEveryLength) {
  if (sha256CompressHardware() == nullptr) GTEST_SKIP() << "this machine has no SHA extensions";
  std::string message;
  for (int length = 0; length < 300; length++) {
    ASSERT_EQ(digest(sha256CompressPortable, message), digest(sha256CompressHardware(), message)) << length;
    message += static_cast<char>(length * 37 + 11);
  }
}

}  // namespace
}  // namespace sha256_test
