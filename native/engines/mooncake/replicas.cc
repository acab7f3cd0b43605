#include "engines/mooncake/replicas.h"

#include <algorithm>

#include "core/layout.h"

namespace mooncake_kv::mooncake {

bool remains(std::span<const Replica> before, std::span<const Replica> after) {
  const auto isThere = [&](const Replica& replica) { return std::find(after.begin(), after.end(), replica) != after.end(); };
  const auto isMemory = [](const Replica& replica) { return replica.tier == layout::TIER_MEMORY; };
  if (std::none_of(before.begin(), before.end(), isMemory)) return std::any_of(before.begin(), before.end(), isThere);
  return std::all_of(before.begin(), before.end(), [&](const Replica& replica) { return !isMemory(replica) || isThere(replica); });
}

}  // namespace mooncake_kv::mooncake
