#include "engines/mooncake/exit_hook.h"

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "core/apart.h"
#include "engines/mooncake/pool.h"

namespace mooncake_kv::mooncake {

namespace {

using Clock = std::chrono::steady_clock;

/** The wheel's close takes 1 to 2.5 s; without a master 10, which nobody waits for here. */
constexpr std::chrono::milliseconds EXIT_CLOSE_TIMEOUT{4'000};
/** A stream that some thread has locked for good is not flushed. */
constexpr std::chrono::milliseconds FLUSH_TIMEOUT{1'000};
/** Each reopened store registers the handler again, up to so many times. */
constexpr int REGISTRATIONS_MAX = 256;

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex.
  std::vector<std::weak_ptr<Pool>> pools;
  size_t openStores = 0;
  bool exiting = false;
  int registrations = 0;
  /** Of the process that has the stores. */
  pid_t process = 0;
};

/** Never destroyed: other threads are at work when the process ends. */
State& state() {
  static auto* kept = new State();
  return *kept;
}

[[noreturn]] void leave(int status) {
  runApart(
      [] {
        std::fflush(nullptr);
        std::cout.flush();
        std::cerr.flush();
        std::clog.flush();
      },
      Clock::now() + FLUSH_TIMEOUT);
  _exit(status);
}

void say(std::string_view text) {
  // Nobody may be there to read it.
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

void onExit(int status, void*) {
  State& all = state();
  // No lock: a thread of the parent's may have held it when this process was forked.
  if (all.process != getpid()) leave(status);
  std::vector<std::shared_ptr<Pool>> pools;
  {
    std::lock_guard lock(all.mutex);
    if (std::exchange(all.exiting, true) || all.openStores == 0) return;
    for (const auto& each : all.pools) {
      if (auto pool = each.lock()) pools.push_back(std::move(pool));
    }
  }
  for (const auto& pool : pools) pool->retire();
  pools.clear();
  {
    std::unique_lock lock(all.mutex);
    if (all.changed.wait_for(lock, EXIT_CLOSE_TIMEOUT, [&] { return all.openStores == 0; })) return;
  }
  say("mooncake-kv: the process ends with a Mooncake store that could not be closed in time; call stop() before process.exit.\n");
  leave(status);
}

}  // namespace

void hookExit(bool atEnd) {
  State& all = state();
  {
    std::lock_guard lock(all.mutex);
    if (all.exiting || (atEnd ? all.registrations == 0 : all.registrations == REGISTRATIONS_MAX)) return;
    all.registrations++;
    all.process = getpid();
  }
#ifdef __GLIBC__
  // The wheel is built for glibc only; other libraries have no handler that is told of the exit code.
  on_exit(onExit, nullptr);
#endif
}

void retireAtExit(const std::shared_ptr<Pool>& pool) {
  State& all = state();
  {
    std::lock_guard lock(all.mutex);
    std::erase_if(all.pools, [](const auto& each) { return each.expired(); });
    all.pools.push_back(pool);
    if (!all.exiting) return;
  }
  pool->retire();
}

OpenStore::OpenStore() {
  std::lock_guard lock(state().mutex);
  state().openStores++;
}

OpenStore::~OpenStore() {
  if (givenUp_) return;
  std::lock_guard lock(state().mutex);
  if (--state().openStores == 0) state().changed.notify_all();
}

bool OpenStore::tooLate() {
  std::lock_guard lock(state().mutex);
  return state().exiting;
}

}  // namespace mooncake_kv::mooncake
