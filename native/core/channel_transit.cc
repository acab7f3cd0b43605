// Puts and gets of memory that the engine must not touch: through memory of ours.
#include "core/channel.h"
#include "core/codes.h"
#include "core/copy.h"
#include "core/error.h"

namespace mooncake_kv {

int32_t Channel::askInTransit(EngineHost& host, const KeySpace& keySpace, PoolRequest& request) {
  // As `run`'s: the thread's own, used again.
  static thread_local PoolRequest moved;
  const bool puts = request.operation() == layout::OPERATION_PUT;
  for (uint32_t from = 0; from < request.count();) {
    const std::shared_ptr<EngineConnection> connection = host.connection();
    if (connection == nullptr) return code::ENGINE_DOWN;
    // Held until the engine's call has returned, however late.
    Transit::Lease buffer = host.transit().take(request.valueBytes(from));
    const int32_t reached = reachInTransit(host, *connection, buffer);
    // The keys that are left fail alone: their results are ENGINE_ERROR already.
    if (reached == code::ENGINE_ERROR) return code::OK;
    if (reached != code::OK) return reached;
    const uint32_t to = moveInto(*buffer.memory(), request, from, moved);
    const auto place = [&](uint32_t index) { return moved.segments(index - from)[0].address(); };
    if (puts) {
      if (!keySpace.enter()) return code::CLOSED;
      for (uint32_t index = from; index < to; index++) gatherValue(request, index, place(index));
      keySpace.leave();
    }
    if (const int32_t status = connection->engine->run(moved); status != code::OK) return status;
    // Whose memory it is may have ended, or taken it back, meanwhile: the values reach nobody then.
    if (!puts && !keySpace.enter()) return code::CLOSED;
    for (uint32_t index = from; index < to; index++) {
      int32_t result = moved.result(index - from);
      const bool whole = result >= 0 && static_cast<uint64_t>(result) == request.valueBytes(index);
      // Fewer bytes than the block's would leave old ones in it.
      if (result >= 0 && !whole) result = code::ENGINE_ERROR;
      if (!puts && whole) scatterValue(request, index, place(index));
      request.setResult(index, result);
      request.setTier(index, moved.tier(index - from));
    }
    if (!puts) keySpace.leave();
    from = to;
  }
  return code::OK;
}

int32_t Channel::reachInTransit(EngineHost& host, EngineConnection& connection, Transit::Lease& buffer) {
  if (!buffer) return code::ENGINE_ERROR;
  // An engine that takes not even one is of no use.
  if (connection.knowsNone()) return reach(host, connection, {&buffer.memory(), 1});
  try {
    connection.ensureRegistered({&buffer.memory(), 1});
    return code::OK;
  } catch (const Error& error) {
    if (error.code == "UNREACHABLE") return code::ENGINE_DOWN;
  } catch (const std::exception&) {
    // As refused.
  }
  // There is another, which a later call may get.
  buffer.drop();
  return code::ENGINE_ERROR;
}

}  // namespace mooncake_kv
