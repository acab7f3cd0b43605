// The bytes of a pool: buffers by size, bounded, used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace mooncake_kv::local {

/**
 * Hands out buffers and keeps those given back, because fresh pages cost more than the copy into them. What is handed out, what
 * is kept and the bookkeeping of values (`overhead`) together never exceed `bytesMax`. Any thread.
 */
class Buffers {
 public:
  struct Buffer {
    uint8_t* data = nullptr;
    size_t capacity = 0;
  };

  explicit Buffers(uint64_t bytesMax) : bytesMax_(bytesMax) {}
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  static size_t capacityFor(size_t bytes);

  /** A buffer of at least `bytes`; its data is null when something must be evicted first (or the system has no memory). */
  Buffer take(size_t bytes, size_t overhead);
  void give(Buffer buffer, size_t overhead);
  /** Returns kept buffers to the system. */
  void trim();

  uint64_t bytesMax() const { return bytesMax_; }
  /** Bytes of values, their bookkeeping included; buffers kept for later use are not counted. */
  uint64_t bytesUsed() const;

 private:
  uint8_t* popKept(size_t capacity);
  /** Moves kept buffers out until the bound holds again. */
  void makeRoom(std::vector<Buffer>& released);

  const uint64_t bytesMax_;
  mutable std::mutex mutex_;
  uint64_t used_ = 0;
  uint64_t kept_ = 0;
  std::unordered_map<size_t, std::vector<uint8_t*>> keptBySize_;
};

}  // namespace mooncake_kv::local
