// The recipe of the mooncake engine.
#pragma once

#include "engines/engine_options.h"
#include "engines/open_engine.h"

namespace mooncake_kv::mooncake {

/** Sets those of the wheel's variables that are not set (see open_mooncake.cc). Throws Error for options that are wrong by themselves. */
EngineRecipe recipe(const MooncakeOptions& options);

}  // namespace mooncake_kv::mooncake
