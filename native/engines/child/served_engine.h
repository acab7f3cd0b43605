// An engine without a host, answering messages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "engines/child/messages.h"
#include "engines/child/wire.h"

namespace mooncake_kv::child {

/** An engine that is open, with the memory that it was told of. Any thread. */
class ServedEngine {
 public:
  explicit ServedEngine(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  /** Answers what comes over a link until the other end closes it. */
  void serve(Wire link);
  NumberedStatistics statistics();
  /** Unregisters all memory and closes the engine. May hang. */
  void close();

 private:
  /** By their numbers in the process that asks. */
  using Memories = std::map<uint64_t, std::shared_ptr<Memory>>;

  void answer(std::span<const uint8_t> message, std::vector<Descriptor>& descriptors, PoolRequest& request, Writer& writer);
  void run(Reader& reader, PoolRequest& request, Writer& writer);
  ControlReply control(const ControlRequest& request);
  void registerMemory(Reader& reader, std::vector<Descriptor>& descriptors);
  void unregisterMemory(uint64_t number);
  std::shared_ptr<const Memories> memories();

  const std::shared_ptr<Engine> engine_;
  std::mutex mutex_;
  // Under the mutex.
  /** Changed by putting another in its place, so that a call that hangs keeps the memory it uses and nobody waits for it. */
  std::shared_ptr<const Memories> memories_ = std::make_shared<const Memories>();
  uint64_t readings_ = 0;
};

}  // namespace mooncake_kv::child
