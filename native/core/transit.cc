#include "core/transit.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace mooncake_kv {

Transit::Lease Transit::take(uint64_t bytes) {
  std::shared_ptr<Memory> memory;
  if (!reserve(bytes, memory)) {
    refusals_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  if (memory == nullptr) {
    try {
      memory = Memory::createMemfd(std::max(bytes, bufferBytes_));
    } catch (const std::exception&) {
      forget();
      return {};
    }
  }
  return {*this, std::move(memory)};
}

bool Transit::reserve(uint64_t bytes, std::shared_ptr<Memory>& found) {
  // Ends outside of the lock.
  std::shared_ptr<Memory> tooSmall;
  std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto one = free_.begin(); one != free_.end(); one++) {
    const bool fits = (*one)->bytes() >= bytes;
    if (fits && (best == free_.end() || (*one)->bytes() < (*best)->bytes())) best = one;
  }
  if (best != free_.end()) {
    found = std::move(*best);
    free_.erase(best);
    return true;
  }
  if (made_ < buffersMax_) {
    // The place in `free_`, too, so that giving back cannot fail.
    free_.reserve(made_ + 1);
    made_++;
    return true;
  }
  if (free_.empty()) return false;
  // A connection that knows it keeps it to its own end.
  tooSmall = std::move(free_.back());
  free_.pop_back();
  return true;
}

void Transit::giveBack(std::shared_ptr<Memory> memory) {
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(memory));
}

void Transit::forget() {
  refusals_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  made_--;
}

void Transit::Lease::drop() {
  memory_.reset();
  owner_->forget();
}

uint32_t moveInto(const Memory& buffer, const PoolRequest& request, uint32_t from, PoolRequest& moved) {
  moved.begin(request.operation());
  uint32_t to = from;
  for (uint64_t offset = 0; to < request.count() && request.valueBytes(to) <= buffer.bytes() - offset; to++) {
    const std::string_view key = request.key(to);
    std::memcpy(moved.addKey(key.size()), key.data(), key.size());
    moved.addSegment(buffer, offset, request.valueBytes(to));
    offset += request.valueBytes(to);
  }
  return to;
}

}  // namespace mooncake_kv
