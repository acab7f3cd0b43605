// Which engines there are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/engine.h"

namespace mooncake_kv {

struct EngineOptions {
  std::string kind;
  std::string poolName;
  uint64_t bytesMax = 0;
  bool verifyChecksums = false;
};

/** Throws Error for options that no engine accepts. */
std::unique_ptr<Engine> openEngine(const EngineOptions& options);

}  // namespace mooncake_kv
