// Process-wide ids of engines.
#pragma once

#include "core/engine_host.h"
#include "core/registry.h"

namespace mooncake_kv::addon {

Registry<EngineHost>& engines();

}  // namespace mooncake_kv::addon
