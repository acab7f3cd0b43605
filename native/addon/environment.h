// What the addon keeps for each JavaScript thread that loaded it.
#pragma once

#include <napi.h>

#include <functional>
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

  /** On the environment's thread; before others may `post`. Throws Error when the loop takes no more handles. */
  void openLoop();
  /**
   * Any thread: runs `work` on the environment's thread, with false when that thread is ending and must call no JavaScript any
   * more. After its end `work` goes without being run.
   */
  void post(std::function<void(bool mayCall)> work);

 private:
  void drop(napi_ref reference);
  void runPosted(bool mayCall);
  void end();

  const napi_env env_;
  const std::thread::id thread_;
  std::vector<std::weak_ptr<Memory>> held_;
  std::mutex mutex_;
  // Under the mutex.
  bool ended_ = false;
  LoopSignal* signal_ = nullptr;
  std::vector<std::function<void(bool)>> posted_;
};

}  // namespace mooncake_kv::addon
