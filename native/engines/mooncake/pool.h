// A store together with those who are in it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "engines/mooncake/staging.h"
#include "engines/mooncake/store.h"

namespace mooncake_kv::mooncake {

/**
 * A store and what belongs to it as long as it lives. Whoever calls into the store makes a visit: a store must not be closed under a
 * call. Any thread.
 */
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  using Clock = std::chrono::steady_clock;

  /** The time in which one thread calls into the store. Holds the pool. */
  class Visit {
   public:
    Visit() = default;
    Visit(Visit&& other) noexcept : pool_(std::move(other.pool_)), gaveUp_(other.gaveUp_) {}
    /** After `giveUp` it returns when the store has been closed: for ever, if that never is. */
    ~Visit();

    /** False: there is no store to call, or it takes no more calls. */
    explicit operator bool() const { return pool_ != nullptr; }
    /**
     * A transfer of this visit has been given up, by the wheel, without being ended: until the store is closed somebody may write
     * into the memory that it names, or read it. The pool retires, and the end of the visit waits for that.
     */
    void giveUp();

   private:
    friend class Pool;
    explicit Visit(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}

    std::shared_ptr<Pool> pool_;
    bool gaveUp_ = false;
  };

  /** Checksums of the values of one call. */
  static constexpr size_t DIGESTS_BYTES = 64 << 10;

  Pool(std::shared_ptr<Store> store, size_t stagingBytes)
      : store(store), staging(store, stagingBytes), digests(std::move(store), DIGESTS_BYTES) {}

  /** Only within a visit. */
  const std::shared_ptr<Store> store;
  Staging staging;
  Staging digests;

  /** False once the pool retires. */
  Visit visit();
  /** Takes no more visits; a thread of its own closes the store when the last has ended. */
  void retire();
  /** A visit that makes several calls asks before each. */
  bool isRetired() const { return retired_.load(std::memory_order_relaxed); }
  /** Waits until the store of a pool that retires is closed. False: it was not by then. Not within a visit. */
  bool awaitClosed(std::optional<Clock::time_point> deadline);

 private:
  void leave();
  /** When it is due, and once. */
  void closeApart();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Written under the mutex.
  uint32_t visits_ = 0;
  std::atomic<bool> retired_{false};
  bool closing_ = false;
  bool closed_ = false;
};

}  // namespace mooncake_kv::mooncake
