// An engine that has been opened, with the memory that it knows.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/engine.h"

namespace mooncake_kv {

/** Batches that are in the engine hold the connection; any thread. */
class EngineConnection {
 private:
  /** Who registers; then the list. */
  std::mutex registering_;
  std::mutex mutex_;
  /** Outlives the engine, which may let go of memory in its end. */
  std::vector<std::shared_ptr<Memory>> registered_;

 public:
  EngineConnection(std::shared_ptr<Engine> engine, uint32_t generation) : engine(std::move(engine)), generation(generation) {}

  const std::shared_ptr<Engine> engine;
  /** How many connections the host has tried to make, this one included. */
  const uint32_t generation;

  /**
   * Throws Error when the engine refuses a memory. Returns at once for memory that it knows, also while another thread registers
   * some.
   */
  void ensureRegistered(std::span<const std::shared_ptr<Memory>> memories);
  bool knowsNone();
  /** Unregisters all memory and closes the engine; never throws, may take long. */
  void close();

 private:
  bool knows(const Memory& memory);
};

}  // namespace mooncake_kv
