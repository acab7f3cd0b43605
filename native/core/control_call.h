// Calls on single keys and on the pool as a whole: identity checks, administration, health.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/codes.h"

namespace mooncake_kv {

/** Values for identity and administration, not for KV blocks. */
constexpr size_t CONTROL_VALUE_BYTES_MAX = 1 << 20;
constexpr int64_t KEPT_UNKNOWN = -1;

enum class ControlOperation : int32_t {
  /** Reply: `value`, or OBJECT_NOT_FOUND; VALUE_TOO_LARGE, with its bytes as `count`, for one of more than CONTROL_VALUE_BYTES_MAX, which is not read. */
  getValue = 1,
  /**
   * Stores `value` if the key is absent. Reply: count 1, stored by this call; count 0, a value was there already or the engine
   * cannot tell whose it is, so read it.
   */
  putValue = 2,
  /** Removals: with `force` keys that a reader has leased go too, where the engine knows leases. Reply: OK, or OBJECT_NOT_FOUND. */
  removeKey = 3,
  /** `key` is how the keys begin. Reply: count of removed keys; values being read or written may stay. */
  removePrefix = 4,
  /** Reply: count of removed keys. */
  removeAll = 5,
  /** `key` is the prefix. Reply: at most `limit` keys; an error from an engine that has no list of them. */
  keys = 6,
  /** Reply: OK when the engine's peers answer. */
  health = 7,
  /** `key` is a cache_prefix: removes the keys that `hasCachePrefix` names. Reply as of removePrefix. */
  removeCachePrefix = 8,
};

struct ControlRequest {
  ControlOperation operation = ControlOperation::health;
  std::string key{};
  std::vector<uint8_t> value{};
  uint64_t limit = 0;
  bool force = false;
  /**
   * Removals: keys of checksums stay. A checksum must not go before its value: that would be used unchecked. Engines that store
   * none need not look.
   */
  bool keepChecksums = false;
};

struct ControlReply {
  /** OK, or a code below 0. */
  int32_t status = code::OK;
  int64_t count = 0;
  /** Removals: matching keys that stay because somebody uses them; KEPT_UNKNOWN from an engine that does not tell. */
  int64_t kept = 0;
  std::vector<uint8_t> value{};
  std::vector<std::string> keys{};
  /** What the engine said about a failure, for a person; may be empty. */
  std::string text{};
};

/** Called once, on any thread. */
using ControlDone = std::function<void(ControlReply)>;

}  // namespace mooncake_kv
