#include "engines/mooncake/lifecycle_group.h"

namespace mooncake_kv::mooncake {

std::string lifecycleGroup(std::string_view key) {
  // From the end: a model's name and a prefix may hold anything, what follows them may not (src/keys/pool-keys.ts).
  const size_t hash = key.rfind('@');
  const size_t ranks = key.rfind("@tp_rank:");
  if (ranks == std::string_view::npos || ranks == hash) return {};
  std::string group("vllm-mooncake-store:");
  group += key.substr(0, ranks);
  group += key.substr(hash);
  return group;
}

}  // namespace mooncake_kv::mooncake
