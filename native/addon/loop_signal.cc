#include "addon/loop_signal.h"

#include <utility>

#include "core/error.h"

namespace mooncake_kv::addon {

LoopSignal::LoopSignal(napi_env env, Handlers handlers) : env_(env), handlers_(std::move(handlers)) { async_.data = this; }

LoopSignal* LoopSignal::open(napi_env env, bool keepLoopAlive, Handlers handlers) {
  uv_loop_t* loop = nullptr;
  napi_get_uv_event_loop(env, &loop);
  auto* signal = new LoopSignal(env, std::move(handlers));
  const auto onAsync = [](uv_async_t* async) {
    auto* self = static_cast<LoopSignal*>(async->data);
    if (!self->closing_) self->handlers_.onSignal();
  };
  if (loop == nullptr || uv_async_init(loop, &signal->async_, onAsync) != 0) {
    delete signal;
    throw Error("CAPACITY", "wakeId", "", "the event loop takes no more handles", "Raise the limit of open files of this process.");
  }
  if (!keepLoopAlive) uv_unref(reinterpret_cast<uv_handle_t*>(&signal->async_));
  // An asynchronous hook, because uv_close finishes only when the loop turns once more: the thread's end waits for it.
  napi_add_async_cleanup_hook(
      env,
      [](napi_async_cleanup_hook_handle, void* data) {
        auto* self = static_cast<LoopSignal*>(data);
        if (self->closing_) return;
        self->handlers_.onEnding();
        self->close();
      },
      signal, &signal->hook_);
  return signal;
}

void LoopSignal::close() {
  if (closing_) return;
  closing_ = true;
  handlers_.onClose();
  uv_close(reinterpret_cast<uv_handle_t*>(&async_), [](uv_handle_t* handle) {
    auto* self = static_cast<LoopSignal*>(handle->data);
    napi_remove_async_cleanup_hook(self->hook_);
    delete self;
  });
}

}  // namespace mooncake_kv::addon
