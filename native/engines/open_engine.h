// Which engines there are.
#pragma once

#include <functional>
#include <memory>

#include "core/engine.h"
#include "core/engine_host.h"
#include "engines/engine_options.h"

namespace mooncake_kv {

/** How an engine is made, for a host, and for a program that serves an engine without one. */
struct EngineRecipe {
  EngineTraits traits;
  MakeEngine make;
};

/** Throws Error for options that no engine accepts. */
EngineRecipe engineRecipe(const EngineOptions& options);

/** `stateChanged`: see EngineHost::Options. Throws as engineRecipe, and what opening an engine that never hangs throws. */
std::shared_ptr<EngineHost> openEngine(const EngineOptions& options, std::function<void()> stateChanged = nullptr);

}  // namespace mooncake_kv
