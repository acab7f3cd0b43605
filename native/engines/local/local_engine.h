// The default engine: a pool in the memory of this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "engines/local/pool.h"

namespace mooncake_kv::local {

/**
 * Values are the plain concatenation of their segments. Keys are content-addressed, so a put of a present key succeeds without
 * copying; a value becomes visible when it is completely written. Engines of one pool share its counters.
 */
class LocalEngine final : public Engine {
 public:
  LocalEngine(std::shared_ptr<Pool> pool, bool verifyChecksums) : pool_(std::move(pool)), verifyChecksums_(verifyChecksums) {}

  int32_t run(PoolRequest& request) override;
  ControlReply control(const ControlRequest& request) override;
  EngineStatistics statistics() const override;
  bool corrupt(const std::string& key, uint64_t byteOffset) override { return pool_->flipBit(key, byteOffset); }

 private:
  int32_t runKey(PoolRequest& request, uint32_t index, uint64_t tick);
  int32_t exists(PoolRequest& request, uint32_t index, uint64_t tick);
  int32_t put(const PoolRequest& request, uint32_t index, uint64_t tick);
  int32_t get(PoolRequest& request, uint32_t index, uint64_t tick);
  ControlReply remove(const std::function<bool(std::string_view)>& matches);
  ControlReply getValue(const std::string& key);
  ControlReply putValue(const std::string& key, const std::vector<uint8_t>& bytes);
  /** After the value's bytes have been written. */
  void finish(Value& value) const;
  /** False: the bytes have changed since they were written; the value is dropped. */
  bool isIntact(const Value& value) const;

  const std::shared_ptr<Pool> pool_;
  const bool verifyChecksums_;
};

}  // namespace mooncake_kv::local
