// Work that may never return.
#pragma once

#include <chrono>
#include <functional>

namespace mooncake_kv {

/**
 * Runs `work` on a thread of its own and waits until it has returned, at most until `deadline`. False: it is still at it; the
 * thread goes on alone, so `work` owns all that it touches. `work` must not throw.
 */
bool runApart(std::function<void()> work, std::chrono::steady_clock::time_point deadline);

/** Starts a thread that nobody waits for, without signal handlers of the process. Throws std::system_error. */
void startDetached(const char* name, std::function<void()> work);

}  // namespace mooncake_kv
