// Calls on single keys and on the pool as a whole.
#include <string>

#include "core/codes.h"
#include "core/key_names.h"
#include "engines/mooncake/mooncake_engine.h"

namespace mooncake_kv::mooncake {

ControlReply MooncakeEngine::control(const ControlRequest& request) {
  Pool::Visit visit = this->visit();
  if (!visit) return {.status = code::ENGINE_DOWN, .text = "the connection to the master is lost"};
  switch (request.operation) {
    case ControlOperation::getValue:
      return getValue(request.key, visit);
    case ControlOperation::putValue:
      return putValue(request.key, request.value, visit);
    case ControlOperation::removeKey: {
      const int64_t result = store().remove(request.key, request.force);
      return result < 0 ? failed(result, "remove") : ControlReply{.count = 1};
    }
    case ControlOperation::removePrefix:
      return removeMatching(startPattern(request.key), request);
    case ControlOperation::removeCachePrefix:
      return removeMatching(cachePrefixPattern(request.key), request);
    case ControlOperation::removeAll:
      return removeMatching(startPattern(""), request);
    case ControlOperation::keys:
      return {.status = code::ENGINE_ERROR,
              .text = "the store cannot list keys; its master does, at http://HOST:METRICS_PORT/get_all_keys"};
    case ControlOperation::health:
      return store().health() == 0 ? ControlReply{} : ControlReply{.status = code::ENGINE_DOWN, .text = "the master does not answer"};
  }
  return {.status = code::ENGINE_ERROR, .text = "the mooncake engine knows no such call"};
}

ControlReply MooncakeEngine::getValue(const std::string& key, Pool::Visit& visit) {
  // The wheel answers an absent key, a failure and an empty value alike: with no bytes.
  const int64_t size = store().size(key);
  if (size < 0) return failed(size, "get_size");
  if (static_cast<uint64_t>(size) > CONTROL_VALUE_BYTES_MAX) {
    return {.status = code::VALUE_TOO_LARGE, .count = size, .text = "the value has " + std::to_string(size) + " bytes"};
  }
  ReplicaLists before, after;
  store().replicas(key, before);
  const auto began = Pool::Clock::now();
  std::vector<uint8_t> value = store().getValue(key);
  // The wheel's own buffer, which the next value would share with what comes late.
  endTransfer(visit, began, value.empty() && size > 0);
  if (static_cast<int64_t>(value.size()) != size) return {.status = code::ENGINE_ERROR, .text = "the value could not be read"};
  store().replicas(key, after);
  if (!remains(before.of(0), after.of(0))) return {.status = code::REMOVED_UNDER_READ, .text = "the value was removed while it was read"};
  return {.value = std::move(value)};
}

ControlReply MooncakeEngine::putValue(const std::string& key, const std::vector<uint8_t>& value, Pool::Visit& visit) {
  // It says 0 also when another's value was there first, so whose value it is has to be read.
  const auto began = Pool::Clock::now();
  const int64_t result = store().putValue(key, value);
  endTransfer(visit, began, result == wheel_code::TRANSFER_FAIL);
  if (result == 0 || result == wheel_code::OBJECT_ALREADY_EXISTS) return {};
  return failed(result, "put");
}

ControlReply MooncakeEngine::removeMatching(const std::string& pattern, const ControlRequest& request) {
  const bool all = pattern == startPattern("") && !request.keepChecksums;
  const int64_t count = all ? store().removeAll(request.force)
                            : store().removeMatching(request.keepChecksums ? withoutChecksums(pattern) : pattern, request.force);
  return count < 0 ? failed(count, "remove") : ControlReply{.count = count, .kept = KEPT_UNKNOWN};
}

ControlReply MooncakeEngine::failed(int64_t wheelCode, const char* call) {
  const std::string text = std::string(call) + " answered " + std::to_string(wheelCode);
  switch (wheelCode) {
    case code::OBJECT_NOT_FOUND:
    case wheel_code::REPLICA_IS_NOT_READY:
      return {.status = code::OBJECT_NOT_FOUND, .text = "there is no such key"};
    case code::NO_AVAILABLE_HANDLE:
      return {.status = code::NO_AVAILABLE_HANDLE, .text = "the pool has no room"};
    case code::OBJECT_HAS_LEASE:
      return {.status = code::ENGINE_ERROR, .text = "the key is leased by a reader for some seconds; try again"};
    case wheel_code::RPC_FAIL:
    case wheel_code::RPC_TIMEOUT:
      connection_->lose("the master cannot be reached");
      return {.status = code::ENGINE_DOWN, .text = "the master does not answer (" + text + ")"};
    default:
      return {.status = code::ENGINE_ERROR, .text = text};
  }
}

}  // namespace mooncake_kv::mooncake
