// Memory that batches, hashers and channels work on: regions of KV blocks and registered control structures.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace mooncake_kv {

/**
 * A range of bytes with an owner.
 *
 * A memfd is ours: it lives while anyone holds the shared pointer. Host memory belongs to a JavaScript thread; the addon keeps
 * it from being collected while anyone holds the shared pointer, but when that thread ends, it goes whoever holds it. Hence
 * the rule: touch the bytes only between `enter` (which answers false once the owner has begun to end) and `leave`. The
 * owner's end waits in `closeAndWait` until everyone who entered has left.
 */
class Memory {
 public:
  enum class Kind { memfd, host };

  /** Of a memfd, the bytes that are populated before `createMemfd` returns: about 40 ms of work. */
  static constexpr size_t POPULATED_AT_ONCE_BYTES = 64 << 20;

  /**
   * Zeroed, page-aligned, MAP_SHARED, transparent huge pages advised; throws Error when the system refuses. Pages are populated,
   * so that nobody who writes a block first pays for them: the first POPULATED_AT_ONCE_BYTES on the caller's thread, the rest on
   * a helper thread (0.6 ms a MiB; 512 MiB would hold an event loop for a third of a second), which ends with the memory.
   */
  static std::shared_ptr<Memory> createMemfd(size_t bytes);
  /**
   * Another process's memfd: maps `bytes` of it, which are populated likewise, and owns the descriptor from here on, whatever
   * happens. Programs that this process forks do not get the map, so that the bytes are quiet once this process is gone.
   */
  static std::shared_ptr<Memory> openMemfd(int fileDescriptor, size_t bytes);
  /** `lastHoldDropped` runs once, on whatever thread drops the last hold. */
  static std::shared_ptr<Memory> adoptHost(void* data, size_t bytes, std::function<void()> lastHoldDropped);

  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  /** Unique in this process, never used again. */
  uint64_t number() const { return number_; }
  Kind kind() const { return kind_; }
  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fileDescriptor() const { return fileDescriptor_; }

  /** Whoever enters must hold the shared pointer until after `leave`. */
  bool enter();
  void leave();
  void closeAndWait();

 private:
  Memory(Kind kind, void* data, size_t bytes, int fileDescriptor, std::function<void()> lastHoldDropped);
  static std::shared_ptr<Memory> mapMemfd(int fileDescriptor, size_t bytes);
  void populateAll();

  static constexpr uint64_t CLOSED = uint64_t{1} << 63;

  const uint64_t number_;
  const Kind kind_;
  uint8_t* const data_;
  const size_t bytes_;
  const int fileDescriptor_;
  const std::function<void()> lastHoldDropped_;
  /** How many are inside, and the CLOSED bit. */
  std::atomic<uint64_t> inside_{0};
  std::mutex mutex_;
  std::condition_variable left_;
  /** Populates a large memfd. It never holds the shared pointer, so the destructor, which ends it, cannot run on it. */
  std::jthread populator_;
};

/** Enters for the length of a scope. Test it before touching the bytes. */
class Entered {
 public:
  explicit Entered(Memory& memory) : memory_(memory), inside_(memory.enter()) {}
  ~Entered() {
    if (inside_) memory_.leave();
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  explicit operator bool() const { return inside_; }

 private:
  Memory& memory_;
  const bool inside_;
};

}  // namespace mooncake_kv
