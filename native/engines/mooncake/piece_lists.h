// The memory of a call's values as the wheel takes it.
#pragma once

#include <utility>

#include "engines/mooncake/python/objects.h"
#include "engines/mooncake/transfer.h"

namespace mooncake_kv::mooncake {

// Under the interpreter's lock, all of them; they throw Raised.

/** Lists of addresses and of sizes, one list a value. */
std::pair<python::Ref, python::Ref> pieceLists(const Transfer& transfer);
/** Where each piece lies in its value, one list a value. */
python::Ref pieceOffsets(const Transfer& transfer);

}  // namespace mooncake_kv::mooncake
