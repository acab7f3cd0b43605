// An engine together with its I/O threads and the count of batches that it has.
#pragma once

#include <atomic>
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

  /** Counts a batch in; false when closed. */
  bool countIn();
  /** The batch is about to complete. Before its completion can be seen, so that the gauge reads 0 when all have been taken. */
  void countDone() { running_.fetch_sub(1, std::memory_order_relaxed); }
  /** The batch has completed, and this engine's threads are out of its memory. */
  void countOut();
  /** Batches counted in and not done: a gauge. */
  uint32_t running() const { return running_.load(std::memory_order_relaxed); }
  /** Takes no more batches, waits at most `timeout` for those in flight, returns how many are left. */
  uint32_t close(std::chrono::milliseconds timeout);

 private:
  const std::unique_ptr<Engine> engine_;
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  uint32_t inFlight_ = 0;
  std::atomic<uint32_t> running_{0};
  bool closed_ = false;
  // Last member: its threads use the engine, so they end first.
  IoThreads ioThreads_;
};

}  // namespace mooncake_kv
