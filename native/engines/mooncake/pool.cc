#include "engines/mooncake/pool.h"

#include <exception>

#include "core/apart.h"

namespace mooncake_kv::mooncake {

Pool::Visit::~Visit() {
  if (pool_ == nullptr) return;
  pool_->leave();
  if (gaveUp_) pool_->awaitClosed(std::nullopt);
}

void Pool::Visit::giveUp() {
  gaveUp_ = true;
  pool_->retire();
}

Pool::Visit Pool::visit() {
  std::lock_guard lock(mutex_);
  if (retired_) return {};
  visits_++;
  return Visit(shared_from_this());
}

void Pool::leave() {
  {
    std::lock_guard lock(mutex_);
    visits_--;
  }
  closeApart();
}

void Pool::retire() {
  // First: from then on a buffer that goes back is not given out again.
  staging.stop();
  digests.stop();
  {
    std::lock_guard lock(mutex_);
    retired_ = true;
  }
  closeApart();
}

void Pool::closeApart() {
  {
    std::lock_guard lock(mutex_);
    if (!retired_ || visits_ > 0 || std::exchange(closing_, true)) return;
  }
  const auto close = [pool = shared_from_this()] {
    const bool closed = pool->store->close();
    std::lock_guard lock(pool->mutex_);
    pool->closed_ = closed;
    pool->changed_.notify_all();
  };
  try {
    startDetached("kv-store-end", close);
  } catch (const std::exception&) {
    // No thread to be had. This one may be held up by it, but somebody waits for the store to be closed.
    close();
  }
}

bool Pool::awaitClosed(std::optional<Clock::time_point> deadline) {
  std::unique_lock lock(mutex_);
  const auto isClosed = [&] { return closed_; };
  if (deadline) return changed_.wait_until(lock, *deadline, isClosed);
  changed_.wait(lock, isClosed);
  return true;
}

}  // namespace mooncake_kv::mooncake
