#include "core/engine_connection.h"

#include <algorithm>
#include <exception>

namespace mooncake_kv {

void EngineConnection::ensureRegistered(std::span<const std::shared_ptr<Memory>> memories) {
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Memory>& memory : memories) {
    if (std::find(registered_.begin(), registered_.end(), memory) != registered_.end()) continue;
    // It goes with its JavaScript thread, and a call that hangs would write into what comes after it: its values travel in transit memory.
    if (mayHang_ && memory->kind() == Memory::Kind::host) continue;
    engine->registerMemory(*memory);
    registered_.push_back(memory);
  }
}

void EngineConnection::close() {
  std::vector<std::shared_ptr<Memory>> memories;
  {
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
