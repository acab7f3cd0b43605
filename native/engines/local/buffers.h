// The bytes of a pool: buffers by size, bounded, used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engines/local/slabs.h"

namespace mooncake_kv::local {

/**
 * Hands out buffers and keeps those given back, because fresh pages cost more than the copy into them. Any thread.
 *
 * Where a buffer comes from: whole pages below 64 KiB out of slabs, larger ones from a mapping of their own, what would waste much
 * of its last page from malloc. All but the last come populated.
 *
 * What is handed out, what is kept with memory, and the bookkeeping of values (`overhead`) together never exceed `bytesMax`. A slab
 * counts by its buffers: those in use and those that have memory. While there is room for a whole slab it is populated as a whole
 * (for that moment it may lie above the bound, once for each thread that puts); afterwards, and in pools of less than SLABS_MIN
 * slabs, buffer by buffer. When one size needs what another keeps, slabs without a buffer in use go back to the system first, then
 * single buffers, in a slab too; so evicting as many bytes as a value needs always makes room for it, whatever sizes these had.
 */
class Buffers {
 public:
  struct Buffer {
    uint8_t* data = nullptr;
    size_t capacity = 0;
    /** Null when it is no part of a slab. */
    Slabs::Slab* slab = nullptr;
  };

  explicit Buffers(uint64_t bytesMax) : bytesMax_(bytesMax) {}
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  static size_t capacityFor(size_t bytes);

  /** A buffer of at least `bytes`; its data is null when something must be evicted first (or the system has no memory). */
  Buffer take(size_t bytes, size_t overhead);
  void give(Buffer buffer, size_t overhead);

  uint64_t bytesMax() const { return bytesMax_; }
  /** Bytes of values, their bookkeeping included; buffers kept for later use are not counted. */
  uint64_t bytesUsed() const;
  /** Bytes of buffers that have memory and are not in use. */
  uint64_t bytesKept() const;

 private:
  static constexpr uint64_t SLABS_MIN = 16;

  Buffer popKept(size_t capacity);
  /** Moves kept buffers out until the bound holds again: slabs to unmap, single buffers to release. */
  void makeRoom(std::vector<uint8_t*>& slabs, std::vector<Buffer>& singles);
  void releaseAll(const std::vector<uint8_t*>& slabs, const std::vector<Buffer>& singles);
  void makeCold(Buffer buffer);
  /** Fresh memory for a buffer that is already counted as used; null data when the system has none. */
  Buffer fresh(size_t capacity);
  Buffer freshFromSlab(size_t capacity);
  Buffer freshSlab(size_t capacity, bool whole);

  const uint64_t bytesMax_;
  mutable std::mutex mutex_;
  uint64_t used_ = 0;
  uint64_t kept_ = 0;
  Slabs slabs_;
  /** Kept buffers that are no part of a slab. */
  std::unordered_map<size_t, std::vector<uint8_t*>> keptBySize_;
};

}  // namespace mooncake_kv::local
