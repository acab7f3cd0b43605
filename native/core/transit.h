// Memory of ours in which values travel whose own memory an engine must not touch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "core/pool_request.h"

namespace mooncake_kv {

/**
 * Memfds for values in memory that belongs to a JavaScript thread: a call that hangs would outlast that thread, and an engine in
 * another process does not see it. At most `buffersMax` of `bufferBytes`, or as large as one value; made when needed and kept, since
 * engines register them. Any thread.
 */
class Transit {
 public:
  static constexpr uint64_t BUFFER_BYTES = 16 << 20;

  /** A buffer for the time of one call. */
  class Lease {
   public:
    Lease() = default;
    Lease(Transit& owner, std::shared_ptr<Memory> memory) : owner_(&owner), memory_(std::move(memory)) {}
    Lease(Lease&& other) noexcept : owner_(other.owner_), memory_(std::move(other.memory_)) {}
    ~Lease() {
      if (memory_ != nullptr) owner_->giveBack(std::move(memory_));
    }
    const std::shared_ptr<Memory>& memory() const { return memory_; }
    explicit operator bool() const { return memory_ != nullptr; }
    /** The buffer is of no use: another may be made in its place. */
    void drop();

   private:
    Transit* owner_ = nullptr;
    std::shared_ptr<Memory> memory_;
  };

  explicit Transit(size_t buffersMax, uint64_t bufferBytes = BUFFER_BYTES) : buffersMax_(buffersMax), bufferBytes_(bufferBytes) {}

  /** A buffer of at least `bytes`. False, and counted: all are in use, or the system gives no more. */
  Lease take(uint64_t bytes);
  /** The buffers that were asked for in vain, or dropped. */
  uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

 private:
  /** False: there is no place for another. True: `found` is one that fits, or null, and one may be made. */
  bool reserve(uint64_t bytes, std::shared_ptr<Memory>& found);
  void giveBack(std::shared_ptr<Memory> memory);
  void forget();

  const size_t buffersMax_;
  const uint64_t bufferBytes_;
  std::mutex mutex_;
  std::atomic<uint64_t> refusals_{0};
  size_t made_ = 0;
  std::vector<std::shared_ptr<Memory>> free_;
};

/**
 * The keys [from, returned) of a put or get as a request of its own, each value one segment in `buffer`: as many as fit, and the
 * first must.
 */
uint32_t moveInto(const Memory& buffer, const PoolRequest& request, uint32_t from, PoolRequest& moved);

}  // namespace mooncake_kv
