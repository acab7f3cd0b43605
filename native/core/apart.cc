#include "core/apart.h"

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace mooncake_kv {

bool runApart(std::function<void()> work, std::chrono::steady_clock::time_point deadline) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
  };
  const auto shared = std::make_shared<Shared>();
  startDetached("kv-apart", [work = std::move(work), shared]() mutable {
    work();
    // What the work holds goes before anybody is told that it is done.
    work = nullptr;
    std::lock_guard lock(shared->mutex);
    shared->done = true;
    shared->ended.notify_all();
  });
  std::unique_lock lock(shared->mutex);
  return shared->ended.wait_until(lock, deadline, [&] { return shared->done; });
}

void startDetached(const char* name, std::function<void()> work) {
  // Signals of the process are the business of the thread that runs JavaScript: the new thread inherits this mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(work));
    pthread_setname_np(thread.native_handle(), name);
    thread.detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace mooncake_kv
