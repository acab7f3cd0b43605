#include "core/engine_connection.h"

#include <algorithm>
#include <exception>

namespace mooncake_kv {

bool EngineConnection::knows(const Memory& memory) {
  std::lock_guard lock(mutex_);
  return std::any_of(registered_.begin(), registered_.end(), [&](const auto& each) { return each.get() == &memory; });
}

void EngineConnection::ensureRegistered(std::span<const std::shared_ptr<Memory>> memories) {
  if (std::all_of(memories.begin(), memories.end(), [&](const auto& memory) { return knows(*memory); })) return;
  std::lock_guard one(registering_);
  for (const std::shared_ptr<Memory>& memory : memories) {
    if (knows(*memory)) continue;
    {
      // So that what the engine knows can be noted.
      std::lock_guard lock(mutex_);
      registered_.reserve(registered_.size() + 1);
    }
    engine->registerMemory(*memory);
    std::lock_guard lock(mutex_);
    registered_.push_back(memory);
  }
}

bool EngineConnection::knowsNone() {
  std::lock_guard lock(mutex_);
  return registered_.empty();
}

void EngineConnection::close() {
  std::vector<std::shared_ptr<Memory>> memories;
  {
    std::lock_guard one(registering_);
    std::lock_guard lock(mutex_);
    memories.swap(registered_);
  }
  // The connection is given up whatever these say.
  const auto attempt = [](const auto& action) {
    try {
      action();
    } catch (const std::exception&) {
    }
  };
  for (const auto& memory : memories) attempt([&] { engine->unregisterMemory(*memory); });
  attempt([&] { engine->close(); });
}

}  // namespace mooncake_kv
