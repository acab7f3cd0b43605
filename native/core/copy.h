// Copies of KV blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pool_request.h"

namespace mooncake_kv {

/**
 * memcpy for bytes that are not read again soon: large copies go past the cache, which saves reading the destination first and
 * leaves the cache to the model. Like memcpy, it is complete (and visible after a release) when it returns.
 */
void copyPastCache(uint8_t* to, const uint8_t* from, size_t bytes);

/** Copies a value of a request out of its segments into one piece, and one piece into them. */
void gatherValue(const PoolRequest& request, uint32_t index, uint8_t* to);
void scatterValue(const PoolRequest& request, uint32_t index, const uint8_t* from);

}  // namespace mooncake_kv
