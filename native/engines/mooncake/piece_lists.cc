#include "engines/mooncake/piece_lists.h"

namespace mooncake_kv::mooncake {

using python::ListMaker;
using python::Ref;

std::pair<Ref, Ref> pieceLists(const Transfer& transfer) {
  ListMaker addresses(transfer.keys.size());
  ListMaker sizes(transfer.keys.size());
  size_t piece = 0;
  for (const uint32_t end : transfer.pieceEnds) {
    ListMaker valueAddresses(end - piece);
    ListMaker valueSizes(end - piece);
    for (; piece < end; piece++) {
      valueAddresses.add(python::number(reinterpret_cast<uintptr_t>(transfer.pieces[piece].address)));
      valueSizes.add(python::number(transfer.pieces[piece].bytes));
    }
    addresses.add(valueAddresses.take());
    sizes.add(valueSizes.take());
  }
  return {addresses.take(), sizes.take()};
}

Ref pieceOffsets(const Transfer& transfer) {
  ListMaker offsets(transfer.keys.size());
  size_t piece = 0;
  for (const uint32_t end : transfer.pieceEnds) {
    ListMaker ofValue(end - piece);
    for (uint64_t at = 0; piece < end; at += transfer.pieces[piece++].bytes) ofValue.add(python::number(at));
    offsets.add(ofValue.take());
  }
  return offsets.take();
}

}  // namespace mooncake_kv::mooncake
