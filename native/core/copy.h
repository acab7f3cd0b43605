// Copies of KV blocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mooncake_kv {

/**
 * memcpy for bytes that are not read again soon: large copies go past the cache, which saves reading the destination first and
 * leaves the cache to the model. Like memcpy, it is complete (and visible after a release) when it returns.
 */
void copyPastCache(uint8_t* to, const uint8_t* from, size_t bytes);

}  // namespace mooncake_kv
