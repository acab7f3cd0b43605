// Pickles equal CPython's, byte for byte (by length and SHA-256), in one frame and in several; nonsense in a long one is refused.
#include "core/pickle_encoder.h"

#include "core/sha256.h"
#include "golden_encodings.h"
#include "support.h"

namespace pickle_encoder_test {
namespace {

using namespace mooncake_kv;

std::vector<int32_t> tokensFrom(uint32_t first, uint32_t count) {
  std::vector<int32_t> tokens(count);
  for (uint32_t i = 0; i < count; i++) tokens[i] = static_cast<int32_t>((first + i) * 40503u + 7);
  return tokens;
}

/** (("cache_salt", "sss..."),) with memo indices from 2 on, as the stream of extra elements holds it. */
std::vector<uint8_t> saltExtra(uint32_t bytes) {
  std::vector<uint8_t> out = {0x8c, 10};
  for (const char letter : std::string("cache_salt")) out.push_back(static_cast<uint8_t>(letter));
  out.push_back(0x94);
  if (bytes < 256) out.insert(out.end(), {0x8c, static_cast<uint8_t>(bytes)});
  else out.insert(out.end(), {'X', uint8_t(bytes), uint8_t(bytes >> 8), uint8_t(bytes >> 16), uint8_t(bytes >> 24)});
  out.insert(out.end(), bytes, 's');
  out.insert(out.end(), {0x94, 0x86, 0x94, 0x85, 0x94});
  return out;
}

std::vector<uint8_t> encode(uint32_t tokens, uint32_t lookahead, const std::vector<uint8_t>& extra) {
  std::vector<uint8_t> parent(32);
  for (size_t i = 0; i < parent.size(); i++) parent[i] = static_cast<uint8_t>(i);
  const size_t most = PickleEncoder::OTHER_BYTES_MAX + PickleEncoder::TOKEN_BYTES_MAX * (tokens + lookahead) + parent.size() + extra.size();
  std::vector<uint8_t> message(most);
  uint8_t* to = PickleEncoder::begin(message.data(), parent, tokens);
  to = PickleEncoder::tokens(to, tokensFrom(0, tokens).data(), static_cast<int32_t>(tokens));
  to = PickleEncoder::endTokens(to, tokens);
  if (lookahead > 0) to = PickleEncoder::beginLookahead(to, lookahead);
  if (extra.empty()) to = PickleEncoder::none(to);
  else to = std::copy(extra.begin(), extra.end(), to);
  if (lookahead > 0) {
    to = PickleEncoder::tokens(to, tokensFrom(tokens, lookahead).data(), static_cast<int32_t>(lookahead));
    to = PickleEncoder::endLookahead(to, lookahead);
  }
  std::vector<uint8_t> frames;
  const std::span<uint8_t> done = PickleEncoder::finish(message.data(), to, frames, 0);
  return {done.begin(), done.end()};
}

std::string sha256Of(std::vector<uint8_t> message) {
  const size_t bytes = message.size();
  message.resize(bytes + SHA256_PADDING_MAX);
  uint8_t out[SHA256_BYTES];
  sha256InPlace(sha256Compress(), message.data(), bytes, out);
  return support::hex(out, sizeof out);
}

TEST(PickleEncoder, EqualsCPython) {
  for (const golden::PickleCase& one : golden::PICKLES) {
    const std::vector<uint8_t> message = encode(one.tokens, one.lookahead, one.salt == 0 ? std::vector<uint8_t>() : saltExtra(one.salt));
    EXPECT_EQ(message.size(), one.bytes) << one.tokens << " tokens, look-ahead " << one.lookahead << ", salt " << one.salt;
    EXPECT_EQ(sha256Of(message), one.sha256) << one.tokens << " tokens, look-ahead " << one.lookahead << ", salt " << one.salt;
  }
}

TEST(PickleEncoder, IntegersOfEverySize) {
  const std::vector<int32_t> tokens = {0, 255, 256, 65535, 65536, 0x7fffffff, static_cast<int32_t>(0x80000000), -1};
  std::vector<uint8_t> out(tokens.size() * PickleEncoder::TOKEN_BYTES_MAX);
  const uint8_t* end = PickleEncoder::tokens(out.data(), tokens.data(), static_cast<int32_t>(tokens.size()));
  EXPECT_EQ(support::hex(out.data(), static_cast<size_t>(end - out.data())),
            "4b00" "4bff" "4d0001" "4dffff" "4a00000100" "4affffff7f" "8a050000008000" "8a05ffffffff00");
}

TEST(PickleEncoder, RefusesNonsenseInALongMessage) {
  std::vector<uint8_t> extra = saltExtra(8);
  std::string field;
  extra[0] = 0x01;
  EXPECT_EQ(support::errorOf([&] { encode(20000, 0, extra); }, &field), "INVALID_VALUE");
  EXPECT_EQ(field, "extrasPage");
  extra = {'X', 0xff, 0xff, 0xff, 0xff};
  EXPECT_EQ(support::errorOf([&] { encode(20000, 0, extra); }), "INVALID_VALUE");
}

}  // namespace
}  // namespace pickle_encoder_test
