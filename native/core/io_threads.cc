#include "core/io_threads.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/apart.h"
#include "core/clock.h"
#include "core/processors.h"

namespace mooncake_kv {

IoThreads::IoThreads(std::span<const uint32_t> limits, bool firstHalf) : pool_(std::make_shared<Pool>()) {
  pool_->firstHalf = firstHalf;
  uint32_t count = 0;
  for (const uint32_t limit : limits) {
    pool_->lanes.push_back({.limit = limit});
    count += limit;
  }
  // From here on nothing but the threads themselves can be missing.
  pool_->idle.reserve(count);
  workers_.reserve(count);
  threads_.reserve(count);
  replaced_.reserve(REPLACED_MAX);
  try {
    for (uint32_t index = 0; index < count; index++) {
      const auto worker = std::make_shared<Worker>();
      threads_.push_back(start(worker));
      workers_.push_back(worker);
    }
  } catch (...) {
    stop();
    throw;
  }
}

IoThreads::~IoThreads() { stop(); }

void IoThreads::stop() {
  {
    std::lock_guard lock(pool_->mutex);
    pool_->stopped = true;
    for (Worker* worker : pool_->idle) worker->given.notify_one();
  }
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

std::thread IoThreads::start(const std::shared_ptr<Worker>& worker) {
  const SignalsBlocked inherited;
  std::thread thread([pool = pool_, worker] {
    const HalfOfProcessors half(HalfOfProcessors::Half::first, pool->firstHalf);
    serve(*pool, *worker);
  });
  pthread_setname_np(thread.native_handle(), "kv-io");
  return thread;
}

bool IoThreads::Pool::give(size_t lane, Worker& worker) {
  Lane& from = lanes[lane];
  if (from.first == nullptr || from.running == from.limit) return false;
  from.running++;
  // A copy: with its run the task may be used again.
  worker.task = *from.first;
  from.first = from.first->next;
  worker.lane = lane;
  worker.hasTask = true;
  worker.busySince.store(monotonicNanoseconds(), std::memory_order_relaxed);
  return true;
}

bool IoThreads::Pool::giveAny(Worker& worker) {
  for (size_t lane = 0; lane < lanes.size(); lane++) {
    if (give(lane, worker)) return true;
  }
  return false;
}

void IoThreads::serve(Pool& pool, Worker& worker) {
  std::unique_lock lock(pool.mutex);
  for (;;) {
    if (!pool.giveAny(worker)) {
      if (pool.stopped) return;
      pool.idle.push_back(&worker);
      worker.given.wait(lock, [&] { return worker.hasTask || pool.stopped; });
      // What stops the pool does not take it from the idle ones; nobody looks at them any more.
      if (!worker.hasTask) return;
    }
    const Task task = worker.task;
    lock.unlock();
    task.run(task);
    lock.lock();
    worker.busySince.store(0, std::memory_order_relaxed);
    worker.hasTask = false;
    // Its place in the lane was given on with its place among the threads.
    if (worker.replaced) return;
    pool.lanes[worker.lane].running--;
  }
}

void IoThreads::push(size_t lane, Task& task) noexcept {
  std::lock_guard lock(pool_->mutex);
  Lane& to = pool_->lanes[lane];
  task.next = nullptr;
  (to.first == nullptr ? to.first : to.last->next) = &task;
  to.last = &task;
  // With nobody idle a thread is about to look by itself: there is one for each task that may run.
  if (pool_->idle.empty() || !pool_->give(lane, *pool_->idle.back())) return;
  // Under the lock: an idle thread that the pool's end wakes meanwhile must not be gone.
  pool_->idle.back()->given.notify_one();
  pool_->idle.pop_back();
}

uint32_t IoThreads::busySince(uint64_t nanoseconds) const {
  const auto busy = [&](const std::shared_ptr<Worker>& worker) {
    const uint64_t since = worker->busySince.load(std::memory_order_relaxed);
    return since != 0 && since < nanoseconds;
  };
  std::lock_guard lock(pool_->mutex);
  return static_cast<uint32_t>(std::count_if(workers_.begin(), workers_.end(), busy) +
                               std::count_if(replaced_.begin(), replaced_.end(), busy));
}

void IoThreads::replaceBusySince(uint64_t nanoseconds) {
  std::lock_guard lock(pool_->mutex);
  std::erase_if(replaced_, [](const auto& worker) { return worker->busySince.load(std::memory_order_relaxed) == 0; });
  for (size_t index = 0; index < workers_.size() && replaced_.size() < REPLACED_MAX; index++) {
    const uint64_t since = workers_[index]->busySince.load(std::memory_order_relaxed);
    if (since == 0 || since >= nanoseconds) continue;
    std::shared_ptr<Worker> worker;
    std::thread thread;
    try {
      worker = std::make_shared<Worker>();
      thread = start(worker);
    } catch (const std::exception&) {
      // The lane has a thread less until the call returns.
      return;
    }
    workers_[index]->replaced = true;
    pool_->lanes[workers_[index]->lane].running--;
    threads_[index].detach();
    threads_[index] = std::move(thread);
    replaced_.push_back(std::exchange(workers_[index], std::move(worker)));
  }
}

}  // namespace mooncake_kv
