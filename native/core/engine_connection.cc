#include "core/engine_connection.h"

#include <algorithm>
#include <exception>
#include <string>

#include "core/error.h"

namespace mooncake_kv {

void EngineConnection::ensureRegistered(std::span<const std::shared_ptr<Memory>> memories) {
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Memory>& memory : memories) {
    if (std::find(registered_.begin(), registered_.end(), memory) != registered_.end()) continue;
    if (refusesHostMemory_ && memory->kind() == Memory::Kind::host) {
      // It goes with its JavaScript thread, and a call that hangs would write into what comes after it.
      throw Error("REGISTRATION_REFUSED", "segments", "pinned memory of " + std::to_string(memory->bytes()) + " bytes",
                  "this engine's calls may outlast the thread that owns the memory",
                  "Put KV blocks into a region that regionCreate makes.");
    }
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
