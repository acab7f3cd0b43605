#include "engines/local/buffers.h"

#include <sys/mman.h>

#include <cstdlib>

namespace mooncake_kv::local {

namespace {

constexpr size_t MAPPED_BYTES_MIN = 64 << 10;
constexpr size_t PAGE_BYTES = 4096;
constexpr size_t HUGE_PAGE_BYTES = 2 << 20;
constexpr size_t LINE_BYTES = 64;

uint8_t* allocate(size_t capacity) {
  if (capacity < MAPPED_BYTES_MIN) return static_cast<uint8_t*>(std::aligned_alloc(LINE_BYTES, capacity));
  const bool huge = capacity >= HUGE_PAGE_BYTES;
  // The value is written at once, so all pages are wanted now: populating them in one call is several times cheaper than
  // taking a fault for each. Huge pages must be advised first and then come with the faults.
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (huge ? 0 : MAP_POPULATE);
  void* data = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (huge) madvise(data, capacity, MADV_HUGEPAGE);
  return static_cast<uint8_t*>(data);
}

void release(Buffers::Buffer buffer) {
  if (buffer.capacity < MAPPED_BYTES_MIN) {
    std::free(buffer.data);
  } else {
    munmap(buffer.data, buffer.capacity);
  }
}

}  // namespace

Buffers::~Buffers() { trim(); }

size_t Buffers::capacityFor(size_t bytes) {
  const size_t step = bytes < MAPPED_BYTES_MIN ? LINE_BYTES : PAGE_BYTES;
  return bytes == 0 ? step : (bytes + step - 1) / step * step;
}

Buffers::Buffer Buffers::take(size_t bytes, size_t overhead) {
  const size_t capacity = capacityFor(bytes);
  const uint64_t wanted = uint64_t{capacity} + overhead;
  std::vector<Buffer> released;
  {
    std::lock_guard lock(mutex_);
    if (wanted > bytesMax_ - used_) return {};
    used_ += wanted;
    if (uint8_t* data = popKept(capacity)) return {data, capacity};
    makeRoom(released);
  }
  // Memory goes back to the system before more is asked of it, and neither is done under the lock.
  for (const Buffer buffer : released) release(buffer);
  if (uint8_t* data = allocate(capacity)) return {data, capacity};
  std::lock_guard lock(mutex_);
  used_ -= wanted;
  return {};
}

void Buffers::give(Buffer buffer, size_t overhead) {
  std::lock_guard lock(mutex_);
  keptBySize_[buffer.capacity].push_back(buffer.data);
  used_ -= uint64_t{buffer.capacity} + overhead;
  kept_ += buffer.capacity;
}

uint8_t* Buffers::popKept(size_t capacity) {
  const auto found = keptBySize_.find(capacity);
  if (found == keptBySize_.end()) return nullptr;
  uint8_t* data = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) keptBySize_.erase(found);
  kept_ -= capacity;
  return data;
}

void Buffers::makeRoom(std::vector<Buffer>& released) {
  while (!keptBySize_.empty() && used_ + kept_ > bytesMax_) {
    const size_t capacity = keptBySize_.begin()->first;
    released.push_back({popKept(capacity), capacity});
  }
}

void Buffers::trim() {
  std::unordered_map<size_t, std::vector<uint8_t*>> all;
  {
    std::lock_guard lock(mutex_);
    all.swap(keptBySize_);
    kept_ = 0;
  }
  for (const auto& [capacity, list] : all) {
    for (uint8_t* data : list) release({data, capacity});
  }
}

uint64_t Buffers::bytesUsed() const {
  std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace mooncake_kv::local
