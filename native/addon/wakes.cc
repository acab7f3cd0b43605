// wakeReserve, wakeOpen, wakeClose, wake.
#include <array>
#include <atomic>
#include <mutex>

#include "addon/arguments.h"
#include "addon/callback.h"
#include "addon/loop_signal.h"
#include "addon/subjects.h"

namespace mooncake_kv::addon {

namespace {

struct Slot {
  std::mutex mutex;
  /** Under the mutex; null while nobody has the handle open. */
  LoopSignal* signal = nullptr;
};

/** Slots never move, so `wake` finds one without a common lock. Never freed: any thread may wake any number at any time. */
class Table {
 public:
  int32_t reserve() {
    std::lock_guard lock(mutex_);
    if (reserved_ == static_cast<int32_t>(CHUNKS * SLOTS)) {
      throw Error("CAPACITY", "wakeId", std::to_string(reserved_), "there are no more wake numbers", "Reserve one for each actor, once.");
    }
    std::atomic<Slot*>& chunk = chunks_[static_cast<size_t>(reserved_) / SLOTS];
    if (chunk.load(std::memory_order_relaxed) == nullptr) chunk.store(new Slot[SLOTS], std::memory_order_release);
    return ++reserved_;
  }
  /** Null for a number that was never given out. */
  Slot* find(int64_t wakeId) {
    const uint64_t index = static_cast<uint64_t>(wakeId - 1);
    if (wakeId < 1 || index >= CHUNKS * SLOTS) return nullptr;
    Slot* chunk = chunks_[index / SLOTS].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &chunk[index % SLOTS];
  }

 private:
  static constexpr size_t CHUNKS = 4096;
  static constexpr size_t SLOTS = 256;

  std::mutex mutex_;
  int32_t reserved_ = 0;
  std::array<std::atomic<Slot*>, CHUNKS> chunks_{};
};

Table& table() {
  static auto* wakes = new Table;
  return *wakes;
}

Slot& requireSlot(const int32_t wakeId) {
  if (Slot* slot = table().find(wakeId)) return *slot;
  throw invalidValue("wakeId", wakeId, "this number was never reserved", "Pass a number from wakeReserve.");
}

void run(const Callback& callback) {
  napi_handle_scope scope;
  if (napi_open_handle_scope(callback.env, &scope) != napi_ok) return;
  callback.call({});
  napi_close_handle_scope(callback.env, scope);
}

napi_value wakeReserve(const Arguments<1>& arguments) { return number(arguments.env, table().reserve()); }

napi_value wakeOpen(const Arguments<3>& arguments) {
  const napi_env env = arguments.env;
  const int32_t wakeId = arguments.int32(0, "wakeId");
  Slot& slot = requireSlot(wakeId);
  requireFunction(env, arguments[1], "callback");
  const bool keepLoopAlive = readBoolean(env, arguments[2], "keepLoopAlive");
  std::lock_guard lock(slot.mutex);
  if (slot.signal != nullptr) {
    throw invalidValue("wakeId", wakeId, "a thread has it open already", "Close it there first, or wait until that thread has ended.");
  }
  const Callback callback = Callback::make(env, arguments[1], "mooncake-kv.wake");
  slot.signal = LoopSignal::open(env, keepLoopAlive,
                                 {.onSignal = [callback] { run(callback); },
                                  .onEnding =
                                      [&slot] {
                                        std::lock_guard inner(slot.mutex);
                                        slot.signal = nullptr;
                                      },
                                  .onClose = [callback] { callback.drop(); }});
  return nullptr;
}

napi_value wakeClose(const Arguments<1>& arguments) {
  const int32_t wakeId = arguments.int32(0, "wakeId");
  Slot& slot = requireSlot(wakeId);
  LoopSignal* signal = nullptr;
  {
    std::lock_guard lock(slot.mutex);
    signal = slot.signal;
    if (signal == nullptr) return nullptr;
    if (signal->env() != arguments.env) {
      throw Error("WRONG_THREAD", "wakeId", std::to_string(wakeId), "another thread opened it", "Close it on the thread that opened it.");
    }
    slot.signal = nullptr;
  }
  signal->close();
  return nullptr;
}

napi_value wakeFromJavaScript(const Arguments<1>& arguments) {
  return boolean(arguments.env, wake(arguments.int32(0, "wakeId")));
}

}  // namespace

bool wake(int32_t wakeId) {
  Slot* slot = table().find(wakeId);
  if (slot == nullptr) return false;
  std::lock_guard lock(slot->mutex);
  return slot->signal != nullptr && slot->signal->send();
}

void defineWakes(Napi::Object exports) {
  define<1, wakeReserve>(exports, "wakeReserve");
  define<3, wakeOpen>(exports, "wakeOpen");
  define<1, wakeClose>(exports, "wakeClose");
  define<1, wakeFromJavaScript>(exports, "wake");
}

}  // namespace mooncake_kv::addon
