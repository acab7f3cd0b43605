// An engine together with its life: opening, losing and reopening it, its I/O threads, what it has in hand.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/engine.h"
#include "core/engine_connection.h"
#include "core/error.h"
#include "core/io_threads.h"
#include "core/transit.h"

namespace mooncake_kv {

/** The numbers are those of ENGINE_STATES in src/native/binding.ts. */
enum class EngineState : int32_t {
  /** The first `open` has not returned. */
  opening = 0,
  open = 1,
  /** Unreachable or lost; it is opened again with back-off. */
  down = 2,
  /** For good. */
  closed = 3,
  /** For good: somebody has to change something first. */
  failed = 4,
};

/**
 * One open engine of one runtime. Any thread. While the engine is not OPEN, batches and calls are answered with ENGINE_DOWN at
 * once. An engine that may hang has a thread that opens it again and holds the host: such a host must be closed.
 */
class EngineHost : public std::enable_shared_from_this<EngineHost> {
 public:
  using Milliseconds = std::chrono::milliseconds;

  struct Options {
    EngineTraits traits{};
    MakeEngine make{};
    /** After each change of the state, on any thread, outside of all locks. */
    std::function<void()> stateChanged{};
    Milliseconds retryFirst{250};
    Milliseconds retryLast{10'000};
    /** An `open` that has not returned by then is given up and another is tried. */
    Milliseconds openTimeout{120'000};
    /** While so many were given up and have not returned, no other is tried: each has a thread, and what it has set up. */
    uint32_t hungOpensMax = 8;
    /** Of `transit`; 0: one for each put and get that may run, those included that hang in lost connections. */
    size_t transitBuffersMax = 0;
    /** How long a lost connection may take to end before the next is tried. */
    Milliseconds letGoTimeout{5'000};
    /** A call that lasts longer counts as hanging. */
    Milliseconds hungAfter{10'000};
  };

  struct Status {
    EngineState state = EngineState::opening;
    /** Why it is DOWN or FAILED, or was DOWN last. */
    std::optional<Error> error;
    uint32_t reopenings = 0;
    uint32_t hungCalls = 0;
    /** `open`s given up and not returned yet. */
    uint32_t hungOpens = 0;
    /** Buffers for values in a user's own KV memory that were not to be had; the keys of that call failed. */
    uint64_t transitRefusals = 0;
    uint32_t batchesInFlight = 0;
    uint32_t callsInFlight = 0;
  };

  /** Throws what `open` throws of an engine that never hangs; others begin to open and never throw here. */
  static std::shared_ptr<EngineHost> open(Options options);

  explicit EngineHost(Options options);

  const EngineTraits& traits() const { return options_.traits; }
  EngineState state() const { return state_.load(std::memory_order_acquire); }
  Status status() const;
  /** Zeros when there is no connection. */
  EngineStatistics statistics() const;
  /** Null unless OPEN, or CLOSED with batches left. */
  std::shared_ptr<EngineConnection> connection() const;
  /** Queues a task of an operation (layout::OPERATION_). */
  void push(int32_t operation, IoThreads::Task& task) noexcept { threads_.push(laneOf(operation), task); }
  /** So many tasks of an operation run at a time. */
  uint32_t threadsOf(int32_t operation) const { return threads_.limit(laneOf(operation)); }

  /** Memory of ours for values whose own memory the engine must not touch. */
  Transit& transit() { return transit_; }
  /**
   * Memory that requests are going to name: registered before the engine is OPEN, else with the first request. Held until the end.
   * Of a JavaScript thread's memory a buffer for values in transit, of at most `valueBytesMax`, is registered in its place.
   */
  void useMemory(std::span<const std::shared_ptr<Memory>> memories, uint64_t valueBytesMax);
  /** The connection refused something that it cannot do without: FAILED. */
  void fail(const EngineConnection& connection, const Error& error);

  /** Queues a call; `done` gets its reply, at once when the engine is not OPEN or 256 calls wait already. */
  void call(ControlRequest request, ControlDone done);
  static constexpr uint32_t CALLS_MAX = 256;

  /** Counts a batch in: OK, or the code to complete it with at once. */
  int32_t countIn();
  /** The batch is about to complete. Before its completion can be seen, so that the gauge reads 0 when all have been taken. */
  void countDone() { running_.fetch_sub(1, std::memory_order_relaxed); }
  /** The batch has completed, and this engine's threads are out of its memory. */
  void countOut();
  /** Batches counted in and not done: a gauge. */
  uint32_t running() const { return running_.load(std::memory_order_relaxed); }
  /**
   * Takes no more batches, waits at most `timeout` for those in flight and for the engine's own close, returns how many batches
   * are left: those hold all the memory that they use until they return, if ever. May be called again.
   */
  uint32_t close(Milliseconds timeout);

 private:
  struct Attempt;
  struct Call;

  size_t laneOf(int32_t operation) const;
  void keepOpen();
  bool tryOpen();
  void runAttempt(Attempt& attempt, uint32_t generation);
  void lost(uint32_t generation, const std::string& reason);
  /** Closes a connection that nobody gets any more, unless a call hangs in it: then it goes when that call returns. */
  void letGo(std::shared_ptr<EngineConnection> connection, std::chrono::steady_clock::time_point deadline);
  /** Unlocks, then tells of the new state. */
  void change(std::unique_lock<std::mutex>& lock, EngineState state, std::unique_ptr<Error> error);
  static void runCall(const IoThreads::Task& task);

  const Options options_;
  mutable std::mutex mutex_;
  /** State changes and attempts that end. */
  std::condition_variable changed_;
  std::condition_variable idle_;
  std::atomic<EngineState> state_{EngineState::opening};
  // Under the mutex.
  std::unique_ptr<Error> error_;
  std::shared_ptr<EngineConnection> connection_;
  std::vector<std::shared_ptr<Memory>> memories_;
  uint32_t generation_ = 0;
  uint32_t lostGeneration_ = 0;
  uint32_t openings_ = 0;
  uint32_t hungOpens_ = 0;
  uint32_t inFlight_ = 0;
  uint32_t calls_ = 0;

  Transit transit_;
  std::atomic<uint32_t> running_{0};
  IoThreads threads_;
};

}  // namespace mooncake_kv
