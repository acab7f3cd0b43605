#include "core/io_threads.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "core/clock.h"

namespace mooncake_kv {

IoThreads::IoThreads(std::string name, uint32_t threads)
    : name_(std::move(name)), size_(threads), queue_(std::make_shared<Queue>()) {
  for (uint32_t index = 0; index < threads; index++) {
    workers_.push_back(std::make_shared<Worker>());
    threads_.push_back(start(workers_.back()));
  }
}

IoThreads::~IoThreads() {
  {
    std::lock_guard lock(queue_->mutex);
    queue_->stopped = true;
  }
  queue_->filled.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

std::thread IoThreads::start(const std::shared_ptr<Worker>& worker) {
  // Signals of the process are the business of the thread that runs JavaScript: the new threads inherit this mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([queue = queue_, worker] { serve(*queue, *worker); });
  pthread_setname_np(thread.native_handle(), ("kv-" + name_).c_str());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

void IoThreads::serve(Queue& queue, Worker& worker) {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(queue.mutex);
      if (worker.replaced) return;
      queue.filled.wait(lock, [&] { return queue.stopped || !queue.tasks.empty(); });
      if (queue.tasks.empty()) return;
      task = queue.tasks.front();
      queue.tasks.pop_front();
      worker.busySince.store(monotonicNanoseconds(), std::memory_order_relaxed);
    }
    task.run(task);
    worker.busySince.store(0, std::memory_order_relaxed);
  }
}

void IoThreads::push(const Task& task) {
  {
    std::lock_guard lock(queue_->mutex);
    queue_->tasks.push_back(task);
  }
  queue_->filled.notify_one();
}

uint32_t IoThreads::busySince(uint64_t nanoseconds) const {
  const auto busy = [&](const std::shared_ptr<Worker>& worker) {
    const uint64_t since = worker->busySince.load(std::memory_order_relaxed);
    return since != 0 && since < nanoseconds;
  };
  std::lock_guard lock(queue_->mutex);
  return static_cast<uint32_t>(std::count_if(workers_.begin(), workers_.end(), busy) +
                               std::count_if(replaced_.begin(), replaced_.end(), busy));
}

void IoThreads::replaceBusySince(uint64_t nanoseconds) {
  std::lock_guard lock(queue_->mutex);
  std::erase_if(replaced_, [](const auto& worker) { return worker->busySince.load(std::memory_order_relaxed) == 0; });
  for (size_t index = 0; index < workers_.size() && replaced_.size() < REPLACED_MAX; index++) {
    const uint64_t since = workers_[index]->busySince.load(std::memory_order_relaxed);
    if (since == 0 || since >= nanoseconds) continue;
    workers_[index]->replaced = true;
    threads_[index].detach();
    replaced_.push_back(std::exchange(workers_[index], std::make_shared<Worker>()));
    threads_[index] = start(workers_[index]);
  }
}

}  // namespace mooncake_kv
