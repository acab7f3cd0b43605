// An engine in a process of its own, seen from this process.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "engines/child/child_process.h"
#include "engines/child/messages.h"
#include "engines/child/wire.h"
#include "engines/engine_options.h"

namespace mooncake_kv::child {

/** How many calls may be in the child at a time: those of all lanes, and some that the host makes on threads of its own. */
inline uint32_t linksOf(const ChildOptions& options) { return options.existsThreads + options.getThreads + options.putThreads + 4; }

/**
 * One connection is one process: `open` starts it, its death is the connection's loss, and the host's next connection is another
 * process. A call takes a link (a socket that a thread of the child serves), writes what it asks and blocks until the answer; KV
 * bytes stay in the memfd regions, which the child has mapped too.
 *
 * A call ends in one of two ways: with the child's answer, or after the child is dead and waited for. So when a batch completes,
 * nothing writes into its blocks, also when it completes with ENGINE_DOWN.
 */
class ChildEngine final : public Engine {
 public:
  explicit ChildEngine(ChildOptions options) : options_(std::move(options)) {}
  ~ChildEngine() override;

  void open(Lost lost) override;
  /** Kills the child: it has nothing to put in order before it is open. */
  void abandon() override;
  void close() override;
  /** Throws UNSUPPORTED for memory that is no memfd: another process cannot see it. */
  void registerMemory(const Memory& memory) override;
  void unregisterMemory(const Memory& memory) override;
  int32_t run(PoolRequest& request) override;
  ControlReply control(const ControlRequest& request) override;
  EngineStatistics statistics() const override;
  bool corrupt(const std::string& key, uint64_t byteOffset) override;

  /** -1 when it is dead. */
  pid_t pid() const { return process_->pid(); }

 private:
  /** Sends a message over a free link and lets `read` have the answer. Returns OK, or a code below 0 once the child is dead. */
  template <typename Read>
  int32_t ask(std::span<const uint8_t> message, std::span<const int> descriptors, Read&& read);
  /** Throws what the child refused with. */
  void askForMemory(std::span<const uint8_t> message, std::span<const int> descriptors);
  /** Null when the child is dead. */
  Wire* takeLink();
  void giveBack(Wire* link);
  void keep(const NumberedStatistics& read);

  const ChildOptions options_;
  /** Written once, by `open`, under the mutex: `abandon` may come before and during that. */
  std::shared_ptr<ChildProcess> process_;
  std::vector<std::unique_ptr<Wire>> links_;
  mutable std::mutex mutex_;
  std::condition_variable given_;
  // Under the mutex.
  /** The one used last is taken first: its thread of the child is still warm. */
  std::vector<Wire*> free_;
  bool abandoned_ = false;
  NumberedStatistics statistics_;
};

}  // namespace mooncake_kv::child
