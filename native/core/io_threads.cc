#include "core/io_threads.h"

#include <pthread.h>
#include <signal.h>

#include <string>

namespace mooncake_kv {

IoThreads::IoThreads(uint32_t threads, Run run) : queue_(std::make_shared<Queue>()) {
  // Signals of the process are the business of the thread that runs JavaScript: the new threads inherit this mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (uint32_t index = 0; index < threads; index++) {
    threads_.emplace_back([queue = queue_, run] {
      for (;;) {
        Task task;
        {
          std::unique_lock lock(queue->mutex);
          queue->filled.wait(lock, [&] { return queue->stopped || !queue->tasks.empty(); });
          if (queue->tasks.empty()) return;
          task = queue->tasks.front();
          queue->tasks.pop_front();
        }
        run(task);
      }
    });
    pthread_setname_np(threads_.back().native_handle(), ("kv-io-" + std::to_string(index)).c_str());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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

void IoThreads::push(const Task& task) {
  {
    std::lock_guard lock(queue_->mutex);
    queue_->tasks.push_back(task);
  }
  queue_->filled.notify_one();
}

}  // namespace mooncake_kv
