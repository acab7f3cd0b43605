// Puts and gets of memory that the engine must not touch: through memory of ours.
#include "core/channel.h"
#include "core/codes.h"
#include "core/copy.h"
#include "core/transit.h"

namespace mooncake_kv {

int32_t Channel::askInTransit(EngineHost& host, const KeySpace& keySpace, PoolRequest& request) {
  // As `run`'s: the thread's own, used again.
  static thread_local PoolRequest moved;
  const bool puts = request.operation() == layout::OPERATION_PUT;
  for (uint32_t from = 0; from < request.count();) {
    // Held until the engine's call has returned, however late.
    const Transit::Lease buffer = host.transit().take(request.valueBytes(from));
    // The keys that are left fail alone: their results are ENGINE_ERROR already.
    if (!buffer) return code::OK;
    const uint32_t to = moveInto(*buffer.memory(), request, from, moved);
    if (puts) {
      if (!keySpace.enter()) return code::CLOSED;
      for (uint32_t index = from; index < to; index++) gatherValue(request, index, moved.segments(index - from)[0].address());
      keySpace.leave();
    }
    if (const int32_t status = ask(host, {&buffer.memory(), 1}, moved); status != code::OK) return status;
    // The thread whose memory it is may have ended meanwhile: the value reaches nobody then.
    if (!puts && !keySpace.enter()) return code::CLOSED;
    for (uint32_t index = from; index < to; index++) {
      const int32_t result = moved.result(index - from);
      const bool whole = result >= 0 && static_cast<uint64_t>(result) == request.valueBytes(index);
      if (!puts && whole) scatterValue(request, index, moved.segments(index - from)[0].address());
      request.setResult(index, result);
      request.setTier(index, moved.tier(index - from));
    }
    if (!puts) keySpace.leave();
    from = to;
  }
  return code::OK;
}

}  // namespace mooncake_kv
