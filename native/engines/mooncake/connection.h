// How one connection to a master is lost, watched and passed on to the next.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/engine.h"
#include "engines/mooncake/pool.h"
#include "engines/mooncake/refused_keys.h"

namespace mooncake_kv::mooncake {

/** Why a connection ends whose pool retires. */
inline constexpr const char* GIVEN_UP =
    "a transfer did not end within the wheel's limit of 60 s; the store is closed, so that none of its bytes come later";

/**
 * Keeps the store of a connection that was lost for the next one. The wheel goes on pinging a master that is gone and joins again
 * within 1.5 s when it is back, with its own memory; a second store would double that memory. Shared by the engines of one host.
 */
class Parked {
 public:
  void put(std::shared_ptr<Pool> pool);
  std::shared_ptr<Pool> take();
  /**
   * Told at each try to use the parked store again that failed, whether the master accepts connections meanwhile. True: it has for
   * so long that the store will not find back to it.
   */
  bool isStuck(bool masterAccepts);
  /** True at the first call: a first `open` says at once what is wrong, later ones wait for the master a while. */
  bool isFirstOpen();

 private:
  std::mutex mutex_;
  bool opened_ = false;
  std::shared_ptr<Pool> pool_;
  std::optional<std::chrono::steady_clock::time_point> acceptsSince_;
};

/** What calls and the watch tell of a loss; outlives the engine. */
struct Connection {
  /** Set by `open`; from then on it stays. */
  std::shared_ptr<Pool> pool;
  std::shared_ptr<Parked> parked;
  std::shared_ptr<RefusedKeys> refused;
  Engine::Lost report;
  std::atomic<bool> isLost{false};
  std::atomic<bool> ended{false};

  /** Once, and not after `end`. Parks the pool unless it retires. */
  void lose(const std::string& reason);
  /** False: it was lost before, and the pool is no more its own. */
  bool end();

 private:
  std::mutex mutex_;
};

/** Starts a thread that sees a master which goes away while nobody asks it anything, and that removes refused values. */
void startWatch(std::shared_ptr<Connection> connection, const std::string& masterAddress);

/** How long a TCP connection to the master may take. */
inline constexpr int CONNECT_TIMEOUT_MS = 1000;

/**
 * Whether the master answers on every connection that the wheel keeps to it. A ping that was answered says so of one: each of the
 * others that a dead master has left fails the next call on it, and then is gone. They are used up here, not by calls that matter.
 */
bool answersEverywhere(const std::string& masterAddress, Store& store);

}  // namespace mooncake_kv::mooncake
