// The default engine: a pool in the memory of this process.
#pragma once

#include <memory>
#include <string>
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

  int32_t run(Batch& batch, uint32_t from, uint32_t to) override;
  EngineStatistics statistics() const override;
  bool corrupt(const std::string& key, uint64_t byteOffset) override { return pool_->flipBit(key, byteOffset); }
  std::vector<std::string> keys(const std::string& prefix, size_t limit) const override { return pool_->keys(prefix, limit); }
  size_t removePrefix(const std::string& prefix) override { return pool_->removePrefix(prefix); }

 private:
  int32_t exists(Batch& batch, uint32_t index, std::string_view key, uint64_t tick);
  int32_t put(const Batch& batch, uint32_t index, std::string_view key, uint64_t tick);
  int32_t get(Batch& batch, uint32_t index, std::string_view key, uint64_t tick);
  int32_t runKey(Batch& batch, uint32_t index, std::string& key, uint64_t tick);

  const std::shared_ptr<Pool> pool_;
  const bool verifyChecksums_;
};

}  // namespace mooncake_kv::local
