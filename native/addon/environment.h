// What the addon keeps for each JavaScript thread that loaded it.
#pragma once

#include <napi.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "addon/loop_signal.h"
#include "core/memory.h"

namespace mooncake_kv::addon {

/**
 * Holds the views that a thread registered. A view's memory may be used by native threads as long as its JavaScript thread
 * lives; when that thread ends, its end waits until nobody is inside the memory, and from then on nobody gets in.
 */
class Environment : public std::enable_shared_from_this<Environment> {
 public:
  explicit Environment(napi_env env) : env_(env), thread_(std::this_thread::get_id()) {}

  /** Called once for each thread, before anything else. */
  static void attach(napi_env env);
  static Environment& of(napi_env env);

  /** Memory over the view's bytes; the view is held until the last shared pointer goes. */
  std::shared_ptr<Memory> hold(napi_value view, const std::string& field);

 private:
  /** Any thread: drops a reference on the thread that it belongs to. */
  void retire(napi_ref reference);
  void dropRetired();
  void end();

  const napi_env env_;
  const std::thread::id thread_;
  std::vector<std::weak_ptr<Memory>> held_;
  std::mutex mutex_;
  // Under the mutex.
  bool ended_ = false;
  LoopSignal* signal_ = nullptr;
  std::vector<napi_ref> retired_;
};

}  // namespace mooncake_kv::addon
