// Pickle protocol 5 of a block's tuple, byte for byte as CPython's `pickle.dumps((parent, tokens, extra), 5)` writes it.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace mooncake_kv {

/**
 * Same parts as CborEncoder. The memo of the message holds the parent as 0 and the tokens' tuple as 1, so an extra element is
 * encoded (by its maker) with memo indices from 2 on; look-ahead tokens around it change none of them.
 */
struct PickleEncoder {
  /** A token of 2^31 and more is a LONG1: opcode, length, five bytes. */
  static constexpr size_t TOKEN_BYTES_MAX = 7;
  static constexpr size_t OTHER_BYTES_MAX = 32;
  /** Protocol, then the one frame's opcode and length. */
  static constexpr size_t HEAD_BYTES = 11;
  /** A pickler ends its frame at the first object that begins when the frame has this many bytes. */
  static constexpr size_t FRAME_BYTES = 65536;

  static uint8_t* begin(uint8_t* to, std::span<const uint8_t> parent, uint32_t tokens) {
    std::memcpy(to, "\x80\x05\x95", 3);
    to += HEAD_BYTES;
    *to++ = SHORT_BINBYTES;
    *to++ = static_cast<uint8_t>(parent.size());
    std::memcpy(to, parent.data(), parent.size());
    to += parent.size();
    *to++ = MEMOIZE;
    return beginTuple(to, tokens);
  }

  static uint8_t* tokens(uint8_t* to, const int32_t* tokens, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
      const uint32_t token = static_cast<uint32_t>(tokens[i]);
      // Two or four bytes without a branch, as in CborEncoder; one test sorts out everything rarer.
      if (token - 0x100 < 0x80000000u - 0x100) {
        const uint32_t wide = token > 0xffff;
        *to = static_cast<uint8_t>(BININT2 - (BININT2 - BININT) * wide);
        std::memcpy(to + 1, &token, 4);
        to += 3 + 2 * wide;
      } else if (token < 0x100) {
        *to++ = BININT1;
        *to++ = static_cast<uint8_t>(token);
      } else {
        *to++ = LONG1;
        *to++ = 5;
        std::memcpy(to, &token, 4);
        to[4] = 0;
        to += 5;
      }
    }
    return to;
  }
  static uint8_t* endTokens(uint8_t* to, uint32_t tokens) { return endTuple(to, tokens); }

  static uint8_t* none(uint8_t* to) {
    *to = NONE;
    return to + 1;
  }
  static uint8_t* beginLookahead(uint8_t* to, uint32_t tokens) { return beginTuple(to, 1 + tokens); }
  static uint8_t* endLookahead(uint8_t* to, uint32_t tokens) { return endTuple(to, 1 + tokens); }

  /**
   * Ends the message that began at `from`. A long one is written anew to `frames`, with `room` writable bytes after it;
   * throws Error when its extra element is none that a pickler writes.
   */
  static std::span<uint8_t> finish(uint8_t* from, uint8_t* to, std::vector<uint8_t>& frames, size_t room) {
    to = endTuple(to, 3);
    *to++ = STOP;
    const std::span<uint8_t> content(from + HEAD_BYTES, to);
    if (content.size() > FRAME_BYTES) return splitFrames(content, frames, room);
    const uint64_t bytes = content.size();
    std::memcpy(from + HEAD_BYTES - 8, &bytes, 8);
    return {from, to};
  }

  static constexpr uint8_t SHORT_BINBYTES = 'C', BINBYTES = 'B', SHORT_BINUNICODE = 0x8c, BINUNICODE = 'X';
  static constexpr uint8_t BININT1 = 'K', BININT2 = 'M', BININT = 'J', LONG1 = 0x8a, NONE = 'N';
  static constexpr uint8_t MARK = '(', EMPTY_TUPLE = ')', TUPLE = 't', TUPLE1 = 0x85, TUPLE2 = 0x86, TUPLE3 = 0x87;
  static constexpr uint8_t MEMOIZE = 0x94, BINGET = 'h', LONG_BINGET = 'j', FRAME = 0x95, STOP = '.';

 private:
  static uint8_t* beginTuple(uint8_t* to, uint32_t items) {
    if (items > 3) *to++ = MARK;
    return to;
  }
  static uint8_t* endTuple(uint8_t* to, uint32_t items) {
    *to++ = items > 3 ? TUPLE : static_cast<uint8_t>(TUPLE1 - 1 + items);
    *to++ = MEMOIZE;
    return to;
  }
  static std::span<uint8_t> splitFrames(std::span<const uint8_t> content, std::vector<uint8_t>& frames, size_t room);
};

}  // namespace mooncake_kv
