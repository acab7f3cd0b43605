// Work that may never return.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>

namespace mooncake_kv {

/**
 * While it lives, threads that this one starts get no signal of the process: those are the business of the thread that runs
 * JavaScript, and new threads inherit the mask.
 */
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/**
 * Runs `work` on a thread of its own and waits until it has returned, at most until `deadline`. False: it is still at it; the
 * thread goes on alone, so `work` owns all that it touches. Without a thread to be had the work is not done, and what it owns is
 * kept for good. `work` must not throw.
 */
bool runApart(std::function<void()> work, std::chrono::steady_clock::time_point deadline);

/** Starts a thread that nobody waits for, without signal handlers of the process. Throws std::system_error. */
void startDetached(const char* name, std::function<void()> work);

}  // namespace mooncake_kv
