#include "core/engine_host.h"

#include <utility>

#include "core/channel.h"

namespace mooncake_kv {

EngineHost::EngineHost(std::unique_ptr<Engine> engine, uint32_t ioThreads)
    : engine_(std::move(engine)), ioThreads_(ioThreads, Channel::runPart) {}

bool EngineHost::countIn() {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  inFlight_++;
  running_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void EngineHost::countOut() {
  std::lock_guard lock(mutex_);
  if (--inFlight_ == 0) idle_.notify_all();
}

uint32_t EngineHost::close(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  idle_.wait_for(lock, timeout, [&] { return inFlight_ == 0; });
  return inFlight_;
}

}  // namespace mooncake_kv
