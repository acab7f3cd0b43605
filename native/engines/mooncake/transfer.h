// The keys of one call into the store, with the memory of each value.
#pragma once

#include <cstdint>
#include <vector>

namespace mooncake_kv::mooncake {

struct Piece {
  uint8_t* address;
  uint64_t bytes;
};

/** Buffers are used again by the next call of the same thread. */
struct Transfer {
  /** Indexes into the request. */
  std::vector<uint32_t> keys;
  /** Of all values, one after the other; value i ends at pieceEnds[i]. */
  std::vector<Piece> pieces;
  std::vector<uint32_t> pieceEnds;

  void clear() {
    keys.clear();
    pieces.clear();
    pieceEnds.clear();
  }
};

}  // namespace mooncake_kv::mooncake
