#include "engines/mooncake/staging.h"

#include <sys/mman.h>

namespace mooncake_kv::mooncake {

Staging::~Staging() {
  for (uint8_t* data : all_) {
    try {
      store_->unregisterMemory(data, bytes_);
    } catch (const python::Raised&) {
      // A store that cannot let go of the memory must keep it.
      continue;
    }
    munmap(data, bytes_);
  }
}

Staging::Lease Staging::take() {
  std::unique_lock lock(mutex_);
  if (stopped_) return {};
  if (!free_.empty()) {
    uint8_t* data = free_.back();
    free_.pop_back();
    return {*this, data};
  }
  if (all_.size() == BUFFERS_MAX) return {};
  // Its place is taken first: registering asks the interpreter, and nobody waits for that under this mutex.
  all_.push_back(nullptr);
  lock.unlock();
  uint8_t* data = make();
  lock.lock();
  std::erase(all_, nullptr);
  if (data == nullptr) return {};
  all_.push_back(data);
  return {*this, data};
}

void Staging::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
}

uint8_t* Staging::make() {
  void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes_, MADV_HUGEPAGE);
  try {
    if (store_->registerMemory(static_cast<uint8_t*>(data), bytes_) == 0) return static_cast<uint8_t*>(data);
  } catch (const python::Raised&) {
    // As refused.
  }
  munmap(data, bytes_);
  return nullptr;
}

void Staging::giveBack(uint8_t* data) {
  std::lock_guard lock(mutex_);
  free_.push_back(data);
}

}  // namespace mooncake_kv::mooncake
