// Wakes an event loop from any thread.
#pragma once

#include <napi.h>
#include <uv.h>

#include <functional>

namespace mooncake_kv::addon {

/**
 * A uv_async handle of one JavaScript thread. Owned by itself: it goes after `close`, or after the thread's end. Whoever keeps
 * a pointer guards it with a lock, sends under that lock, and forgets the pointer under it in `onEnding` or before `close`.
 */
class LoopSignal {
 public:
  struct Handlers {
    /** On the loop's thread, once for any number of sends before it. */
    std::function<void()> onSignal;
    /** On the loop's thread, when that thread begins to end before `close` was called. */
    std::function<void()> onEnding;
    /** On the loop's thread, in both cases: the place to drop references. */
    std::function<void()> onClose;
  };

  static LoopSignal* open(napi_env env, bool keepLoopAlive, Handlers handlers);

  napi_env env() const { return env_; }
  /** Any thread. Never blocks. */
  bool send() { return uv_async_send(&async_) == 0; }
  /** On the loop's thread. */
  void close();

 private:
  LoopSignal(napi_env env, Handlers handlers);
  ~LoopSignal() = default;

  uv_async_t async_;
  const napi_env env_;
  Handlers handlers_;
  napi_async_cleanup_hook_handle hook_ = nullptr;
  bool closing_ = false;
};

}  // namespace mooncake_kv::addon
