// Reads the options of engineOpen.
#pragma once

#include "addon/arguments.h"
#include "engines/engine_options.h"

namespace mooncake_kv::addon {

/** Throws Error that names the field; UNSUPPORTED for a kind that there is not. */
EngineOptions readEngineOptions(const Options& options);

}  // namespace mooncake_kv::addon
