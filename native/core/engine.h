// What a storage engine is to the rest of native code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/batch.h"

namespace mooncake_kv {

struct EngineStatistics {
  uint64_t bytesMax = 0;
  uint64_t bytesUsed = 0;
  uint64_t keys = 0;
  uint64_t evictions = 0;
  uint64_t puts = 0;
  uint64_t putRefusals = 0;
  uint64_t gets = 0;
  uint64_t getMisses = 0;
};

/** All functions may be called from any thread at any time. An engine ends when no channel and no batch uses it any more. */
class Engine {
 public:
  virtual ~Engine() = default;

  /**
   * Works off keys [from, to) of a batch on an I/O thread: one result a key, as src/store/engine.ts says. Returns the status
   * of the part: OK, or a code below 0 when the engine as a whole failed. Keys that fail alone leave the status OK.
   */
  virtual int32_t run(Batch& batch, uint32_t from, uint32_t to) = 0;

  virtual EngineStatistics statistics() const = 0;
  /** Flips one bit of a stored value and leaves its checksum; false when the key is absent. */
  virtual bool corrupt(const std::string& key, uint64_t byteOffset) = 0;
  virtual std::vector<std::string> keys(const std::string& prefix, size_t limit) const = 0;
  virtual size_t removePrefix(const std::string& prefix) = 0;
};

}  // namespace mooncake_kv
