// Process-wide ids of memory.
#pragma once

#include "core/memory.h"
#include "core/registry.h"

namespace mooncake_kv::addon {

Registry<Memory>& sharedMemories();
Registry<Memory>& regions();

}  // namespace mooncake_kv::addon
