#include "core/apart.h"

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace mooncake_kv {

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool runApart(std::function<void()> work, std::chrono::steady_clock::time_point deadline) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
  };
  const auto shared = std::make_shared<Shared>();
  auto* kept = new std::function<void()>(std::move(work));
  try {
    startDetached("kv-apart", [kept, shared] {
      (*kept)();
      // What the work holds goes before anybody is told that it is done.
      delete kept;
      std::lock_guard lock(shared->mutex);
      shared->done = true;
      shared->ended.notify_all();
    });
  } catch (const std::exception&) {
    return false;
  }
  std::unique_lock lock(shared->mutex);
  return shared->ended.wait_until(lock, deadline, [&] { return shared->done; });
}

void startDetached(const char* name, std::function<void()> work) {
  const SignalsBlocked inherited;
  std::thread thread(std::move(work));
  pthread_setname_np(thread.native_handle(), name);
  thread.detach();
}

}  // namespace mooncake_kv
