// Which values of the pool live and die together.
#pragma once

#include <string>
#include <string_view>

namespace mooncake_kv::mooncake {

/**
 * What a put tells the store of a key with `groupSemantics`, to the letter as vLLM does: the key without its ranks and its group, so
 * that values of one chunk are evicted together, whosever they are. Empty, which is no group, for a key that is no block's.
 */
std::string lifecycleGroup(std::string_view key);

}  // namespace mooncake_kv::mooncake
