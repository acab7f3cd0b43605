#include "core/engine_connection.h"

#include <algorithm>
#include <exception>

namespace mooncake_kv {

bool EngineConnection::knows(const Memory& memory) {
  // It goes with its JavaScript thread, and a call that hangs would write into what comes after it: its values travel in transit.
  if (mayHang_ && memory.kind() == Memory::Kind::host) return true;
  std::lock_guard lock(mutex_);
  return std::any_of(registered_.begin(), registered_.end(), [&](const auto& each) { return each.get() == &memory; });
}

void EngineConnection::ensureRegistered(std::span<const std::shared_ptr<Memory>> memories) {
  if (std::all_of(memories.begin(), memories.end(), [&](const auto& memory) { return knows(*memory); })) return;
  std::lock_guard one(registering_);
  for (const std::shared_ptr<Memory>& memory : memories) {
    if (knows(*memory)) continue;
    engine->registerMemory(*memory);
    std::lock_guard lock(mutex_);
    registered_.push_back(memory);
  }
}

void EngineConnection::close() {
  std::vector<std::shared_ptr<Memory>> memories;
  {
    std::lock_guard one(registering_);
    std::lock_guard lock(mutex_);
    memories.swap(registered_);
  }
  try {
    for (const auto& memory : memories) engine->unregisterMemory(*memory);
    engine->close();
  } catch (const std::exception&) {
    // The connection is given up either way.
  }
}

}  // namespace mooncake_kv
