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

/** The values of `transfer` that `keeps` wants. */
template <typename Keeps>
Transfer partOf(const Transfer& transfer, Keeps&& keeps) {
  Transfer part;
  for (size_t nth = 0; nth < transfer.keys.size(); nth++) {
    if (!keeps(transfer.keys[nth])) continue;
    const uint32_t start = nth == 0 ? 0 : transfer.pieceEnds[nth - 1];
    part.keys.push_back(transfer.keys[nth]);
    part.pieces.insert(part.pieces.end(), transfer.pieces.begin() + start, transfer.pieces.begin() + transfer.pieceEnds[nth]);
    part.pieceEnds.push_back(static_cast<uint32_t>(part.pieces.size()));
  }
  return part;
}

}  // namespace mooncake_kv::mooncake
