// The process that an engine lives in, seen from the process that started it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "engines/child/messages.h"
#include "engines/child/wire.h"
#include "engines/engine_options.h"

namespace mooncake_kv::child {

class OutputLines;

/**
 * Started once, dead once. Two threads of its own hold it until the process is gone: one started it and waits for its end, so that
 * the system ends the process when that thread goes, that is with this process; the other reads what it says and writes. Any thread.
 */
class ChildProcess : public std::enable_shared_from_this<ChildProcess> {
 public:
  using Clock = std::chrono::steady_clock;
  /** Once, unless `end` came first: the process is gone, or its engine is. */
  using Gone = std::function<void(const std::string& reason)>;

  /** `links`: the child's ends, at most Wire::DESCRIPTORS_MAX. Throws Error when there is nothing to start. */
  static std::shared_ptr<ChildProcess> start(const ChildOptions& options, std::vector<Descriptor> links, Gone gone);

  explicit ChildProcess(Gone gone, Descriptor control, Descriptor output)
      : gone_(std::move(gone)), control_(std::move(control)), output_(std::move(output)) {}

  /** Waits until its engine is open. Throws what the engine's `open` threw, or UNREACHABLE when there is no answer by then. */
  NumberedStatistics awaitOpen(Clock::time_point deadline);
  pid_t pid() const;
  bool isDead() const;
  /** Ends it at once; `why` (may be empty) is for those who are told. */
  void kill(const std::string& why);
  /** Asks it to close its engine and end; kills it at the deadline. */
  void end(Clock::time_point deadline);
  /**
   * Returns when the process has been waited for. From then on nothing writes into the memory that it had mapped: the system has
   * stopped its threads and closed its devices by then, which the end of a socket alone does not say.
   */
  void awaitDeath();

 private:
  void sendHello(const ChildOptions& options, std::vector<Descriptor> links);
  /** The waiting thread. */
  void live(const ChildOptions& options, Descriptor control, Descriptor output);
  void waitForEnd(pid_t pid);
  /** The reading thread. */
  void readAll();
  /** False: nothing comes any more. */
  bool readControl();
  void take(std::span<const uint8_t> payload);
  bool isEnding() const;
  bool readOutput(OutputLines& lines);
  void tell(const std::string& reason);

  const Gone gone_;
  Wire control_;
  const Descriptor output_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex.
  /** 0: not started. */
  pid_t pid_ = 0;
  bool welcomed_ = false;
  bool opened_ = false;
  bool dead_ = false;
  bool told_ = false;
  NumberedStatistics statistics_;
  std::unique_ptr<Error> error_;
  std::string why_;
};

}  // namespace mooncake_kv::child
