// An engine together with its I/O threads and the count of batches that it has.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/engine.h"
#include "core/io_threads.h"

namespace mooncake_kv {

/** One open engine of one runtime. Any thread. */
class EngineHost {
 public:
  EngineHost(std::unique_ptr<Engine> engine, uint32_t ioThreads);

  Engine& engine() { return *engine_; }
  IoThreads& ioThreads() { return ioThreads_; }

  /** Counts a batch in; false when closed. Every batch counted in is counted out once, after its completion was pushed. */
  bool countIn();
  void countOut();
  uint32_t inFlight() const;
  /** Takes no more batches, waits at most `timeout` for those in flight, returns how many are left. */
  uint32_t close(std::chrono::milliseconds timeout);

 private:
  const std::unique_ptr<Engine> engine_;
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  uint32_t inFlight_ = 0;
  bool closed_ = false;
  // Last member: its threads use the engine, so they end first.
  IoThreads ioThreads_;
};

}  // namespace mooncake_kv
