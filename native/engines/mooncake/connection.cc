#include "engines/mooncake/connection.h"

#include <cstdint>
#include <thread>
#include <utility>

#include "core/apart.h"
#include "engines/mooncake/master_address.h"
#include "engines/mooncake/refused_values.h"

namespace mooncake_kv::mooncake {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto WATCH_INTERVAL = std::chrono::milliseconds(250);
constexpr auto PROBE_INTERVAL = std::chrono::seconds(1);
/** Refused values that one call may remove. */
constexpr size_t REMOVALS_MAX = 1024;
constexpr auto STUCK_AFTER = std::chrono::seconds(60);
/** More than calls that this engine has in the store at a time, the wheel's own with them, and so than connections to the master. */
constexpr uint32_t ANSWERS_IN_A_ROW = 32;
constexpr uint32_t BROKEN_CONNECTIONS_MAX = 64;

/** Why the master is lost, or nothing. */
std::string whyLost(const std::string& address, Store& store) {
  const std::string why = whyUnreachable(address, CONNECT_TIMEOUT_MS);
  if (!why.empty()) return "the master does not answer: " + why;
  const int64_t answer = store.exists(ANSWER_PROBE_KEY);
  if (answer == wheel_code::RPC_TIMEOUT) return "the master does not answer in time";
  return answer == wheel_code::RPC_FAIL && !answersEverywhere(address, store) ? "the master cannot be reached" : "";
}

/**
 * The wheel pings for stores that give memory only, so its own word is not enough: without memory of its own it calls a dead master
 * healthy for good.
 */
void watch(Connection& connection, const std::string& address) {
  auto probeAt = Clock::now() + PROBE_INTERVAL;
  while (!connection.ended && !connection.isLost) {
    try {
      const Pool::Visit visit = connection.pool->visit();
      if (!visit) {
        connection.lose(GIVEN_UP);
      } else if (connection.pool->store->health() != 0) {
        connection.lose("the master does not answer");
      } else if (Clock::now() >= probeAt) {
        const std::string why = whyLost(address, *connection.pool->store);
        if (!why.empty()) connection.lose(why);
        probeAt = Clock::now() + PROBE_INTERVAL;
      }
      if (visit && !connection.isLost) {
        removeRefusedKeys(*connection.pool->store, connection.refused->takeDue(Clock::now(), REMOVALS_MAX), *connection.refused);
      }
    } catch (const python::Raised&) {
      // Says nothing about the master; calls will.
    }
    std::this_thread::sleep_for(WATCH_INTERVAL);
  }
}

}  // namespace

void startWatch(std::shared_ptr<Connection> connection, const std::string& masterAddress) {
  startDetached("kv-watch", [connection = std::move(connection), masterAddress] { watch(*connection, masterAddress); });
}

bool answersEverywhere(const std::string& masterAddress, Store& store) {
  int64_t result = wheel_code::RPC_FAIL;
  for (uint32_t broken = 0; broken <= BROKEN_CONNECTIONS_MAX && result == wheel_code::RPC_FAIL; broken++) {
    // Where nobody listens a call of the wheel takes 4 s to say so.
    if (!whyUnreachable(masterAddress, CONNECT_TIMEOUT_MS).empty()) return false;
    uint32_t answers = 0;
    do {
      result = store.exists(ANSWER_PROBE_KEY);
    } while (result != wheel_code::RPC_FAIL && result != wheel_code::RPC_TIMEOUT && ++answers < ANSWERS_IN_A_ROW);
    if (answers == ANSWERS_IN_A_ROW) return true;
  }
  return false;
}

void Parked::put(std::shared_ptr<Pool> pool) {
  std::lock_guard lock(mutex_);
  pool_ = std::move(pool);
}

std::shared_ptr<Pool> Parked::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(pool_, nullptr);
}

bool Parked::isStuck(bool masterAccepts) {
  std::lock_guard lock(mutex_);
  if (!masterAccepts) {
    acceptsSince_.reset();
  } else if (!acceptsSince_) {
    acceptsSince_ = Clock::now();
  }
  if (!acceptsSince_ || Clock::now() - *acceptsSince_ < STUCK_AFTER) return false;
  acceptsSince_.reset();
  return true;
}

bool Parked::isFirstOpen() {
  std::lock_guard lock(mutex_);
  return !std::exchange(opened_, true);
}

void Connection::lose(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (ended || isLost.exchange(true)) return;
    // At once and not when the last call has returned, which may be a minute later.
    if (!pool->isRetired()) parked->put(pool);
  }
  report(reason);
}

bool Connection::end() {
  std::lock_guard lock(mutex_);
  ended = true;
  return !isLost;
}

}  // namespace mooncake_kv::mooncake
