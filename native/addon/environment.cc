#include "addon/environment.h"

#include <algorithm>
#include <utility>

#include "addon/arguments.h"
#include "addon/memories.h"

namespace mooncake_kv::addon {

void Environment::attach(napi_env env) {
  auto* kept = new std::shared_ptr<Environment>(std::make_shared<Environment>(env));
  const auto forget = [](napi_env, void* data, void*) { delete static_cast<std::shared_ptr<Environment>*>(data); };
  napi_set_instance_data(env, kept, forget, nullptr);
  // Hooks run in reverse order, so this first one runs after those that close the thread's wake handles.
  napi_add_env_cleanup_hook(env, [](void* data) { static_cast<Environment*>(data)->end(); }, kept->get());
}

Environment& Environment::of(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return **static_cast<std::shared_ptr<Environment>*>(data);
}

std::shared_ptr<Memory> Environment::hold(napi_value value, const std::string& field) {
  const View view = readView(env_, value, field);
  if (view.bytes == 0) throw invalidValue(field, "an empty view", "there are no bytes to register", "Pass a view with at least one byte.");
  openLoop();
  napi_ref reference = nullptr;
  if (napi_create_reference(env_, value, 1, &reference) != napi_ok) {
    throw Error("CAPACITY", field, "", "the view cannot be held", "Register fewer views.");
  }
  auto memory = Memory::adoptHost(view.data, view.bytes, [self = shared_from_this(), reference] { self->drop(reference); });
  std::erase_if(held_, [](const auto& held) { return held.expired(); });
  held_.push_back(memory);
  return memory;
}

void Environment::openLoop() {
  std::lock_guard lock(mutex_);
  if (signal_ != nullptr) return;
  signal_ = LoopSignal::open(env_, false,
                             {.onSignal = [this] { runPosted(true); },
                              .onEnding =
                                  [this] {
                                    std::lock_guard inner(mutex_);
                                    signal_ = nullptr;
                                  },
                              .onClose = [] {}});
}

void Environment::post(std::function<void(bool)> work) {
  std::lock_guard lock(mutex_);
  if (ended_) return;
  posted_.push_back(std::move(work));
  if (signal_ != nullptr) signal_->send();
}

void Environment::drop(napi_ref reference) {
  if (std::this_thread::get_id() == thread_) {
    if (!ended_) napi_delete_reference(env_, reference);
    return;
  }
  // After the end the reference went with its thread.
  post([env = env_, reference](bool) { napi_delete_reference(env, reference); });
}

void Environment::runPosted(bool mayCall) {
  std::vector<std::function<void(bool)>> works;
  {
    std::lock_guard lock(mutex_);
    works.swap(posted_);
  }
  for (const auto& work : works) work(mayCall);
}

void Environment::end() {
  std::vector<std::shared_ptr<Memory>> memories;
  for (const auto& held : held_) {
    if (auto memory = held.lock()) memories.push_back(std::move(memory));
  }
  for (const auto& memory : memories) memory->closeAndWait();
  const auto isHere = [&](const Memory& memory) {
    return std::any_of(memories.begin(), memories.end(), [&](const auto& own) { return own.get() == &memory; });
  };
  sharedMemories().removeIf(isHere);
  regions().removeIf(isHere);
  memories.clear();
  runPosted(false);
  std::lock_guard lock(mutex_);
  ended_ = true;
}

}  // namespace mooncake_kv::addon
