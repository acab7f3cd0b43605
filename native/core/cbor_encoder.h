// Canonical CBOR of a block's tuple, as vLLM's `cbor2.dumps(..., canonical=True)` writes it: [parent, [tokens], extra or null].
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace mooncake_kv {

/**
 * Writes the parts of one message in order; see the template in block_hash.cc, which calls them. Every function returns the
 * end of what it wrote. `tokens` may write up to 4 bytes past its end.
 */
struct CborEncoder {
  static constexpr size_t TOKEN_BYTES_MAX = 5;
  /** All parts of a message but parent, tokens and extra element. */
  static constexpr size_t OTHER_BYTES_MAX = 32;

  static uint8_t* begin(uint8_t* to, std::span<const uint8_t> parent, uint32_t tokens) {
    to = head(to, ARRAY, 3);
    to = head(to, BYTES, static_cast<uint32_t>(parent.size()));
    std::memcpy(to, parent.data(), parent.size());
    return head(to + parent.size(), ARRAY, tokens);
  }

  static uint8_t* tokens(uint8_t* to, const int32_t* tokens, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
      const uint32_t token = static_cast<uint32_t>(tokens[i]);
      if (token < 0x100) {
        to = head(to, UNSIGNED, token);
        continue;
      }
      // Two or four bytes without a branch: which of the two is a coin toss for the usual vocabulary of some 100,000 tokens.
      // In numbers, because compilers turn a choice of two into a jump.
      const uint32_t wide = token > 0xffff;
      *to = static_cast<uint8_t>(UNSIGNED | (25 + wide));
      const uint32_t big = __builtin_bswap32(token << (16 - 16 * wide));
      std::memcpy(to + 1, &big, 4);
      to += 3 + 2 * wide;
    }
    return to;
  }
  static uint8_t* endTokens(uint8_t* to, uint32_t) { return to; }

  static uint8_t* none(uint8_t* to) {
    *to = NOTHING;
    return to + 1;
  }
  /** Around the extra element (or none) and the tokens after the block. */
  static uint8_t* beginLookahead(uint8_t* to, uint32_t tokens) { return head(to, ARRAY, 1 + tokens); }
  static uint8_t* endLookahead(uint8_t* to, uint32_t) { return to; }

  /** The message that lies in [from, to): its bytes are all there. */
  static std::span<uint8_t> finish(uint8_t* from, uint8_t* to, std::vector<uint8_t>&, size_t) { return {from, to}; }

 private:
  static constexpr uint8_t UNSIGNED = 0x00, BYTES = 0x40, ARRAY = 0x80, NOTHING = 0xf6;

  /** Major type and argument in the shortest form. */
  static uint8_t* head(uint8_t* to, uint8_t major, uint32_t argument) {
    if (argument < 24) {
      *to++ = static_cast<uint8_t>(major | argument);
    } else if (argument < 0x100) {
      *to++ = major | 24;
      *to++ = static_cast<uint8_t>(argument);
    } else if (argument < 0x10000) {
      *to++ = major | 25;
      *to++ = static_cast<uint8_t>(argument >> 8);
      *to++ = static_cast<uint8_t>(argument);
    } else {
      *to++ = major | 26;
      const uint32_t big = __builtin_bswap32(argument);
      std::memcpy(to, &big, 4);
      to += 4;
    }
    return to;
  }
};

}  // namespace mooncake_kv
