// How values that were refused leave the pool.
#pragma once

#include "engines/mooncake/refused_keys.h"
#include "engines/mooncake/store.h"

namespace mooncake_kv::mooncake {

/** Removes the values of these refused keys unless they are leased, and with a value the mark that it had checksums. */
void removeRefusedKeys(Store& store, const Names& keys, RefusedKeys& refused);

}  // namespace mooncake_kv::mooncake
