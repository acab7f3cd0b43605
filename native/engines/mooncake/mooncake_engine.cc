#include "engines/mooncake/mooncake_engine.h"

#include <algorithm>
#include <thread>

#include "core/apart.h"
#include "core/codes.h"
#include "core/error.h"
#include "engines/mooncake/master_address.h"

namespace mooncake_kv::mooncake {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto WATCH_INTERVAL = std::chrono::milliseconds(250);
constexpr auto PROBE_INTERVAL = std::chrono::seconds(1);
constexpr int CONNECT_TIMEOUT_MS = 1000;
/** How long an `open` waits for the master: the host's own pauses between two tries grow to 10 s, and a master is back in between. */
constexpr auto MASTER_TIMEOUT = std::chrono::seconds(8);
/** For a store that has found its master again by itself: the wheel pings once a second. */
constexpr auto HEALTH_POLL = std::chrono::milliseconds(50);
/** A ping, a second after the one before at the latest, and the mounting of memory that follows it. */
constexpr auto PING_AND_MOUNT = std::chrono::seconds(2);
constexpr auto CONNECT_POLL = std::chrono::milliseconds(250);
/** More than calls that this engine has in the store at a time, the wheel's own with them, and so than connections to the master. */
constexpr uint32_t ANSWERS_IN_A_ROW = 32;
constexpr uint32_t BROKEN_CONNECTIONS_MAX = 64;
constexpr auto STUCK_AFTER = std::chrono::seconds(60);
/** For the watch, which holds the pool for microseconds four times a second, longer when the master hangs. */
constexpr auto LAST_HOLDER_TIMEOUT = std::chrono::seconds(2);

Error unreachable(const std::string& address, const std::string& why) {
  return Error("UNREACHABLE", "master_server_address", address, "the master does not answer" + (why.empty() ? "" : ": " + why),
               "Start it (mooncake_master --rpc_port PORT), or correct the address in the store's JSON file.");
}

/**
 * Whether the master answers on every connection that the wheel keeps to it. A ping that was answered says so of one: each of the
 * others that a dead master has left fails the next call on it, and then is gone. They are used up here, not by calls that matter.
 */
bool answersEverywhere(const std::string& address, Store& store) {
  int64_t result = wheel_code::RPC_FAIL;
  for (uint32_t broken = 0; broken <= BROKEN_CONNECTIONS_MAX && result == wheel_code::RPC_FAIL; broken++) {
    // Where nobody listens a call of the wheel takes 4 s to say so.
    if (!whyUnreachable(address, CONNECT_TIMEOUT_MS).empty()) return false;
    uint32_t answers = 0;
    do {
      result = store.exists(ANSWER_PROBE_KEY);
    } while (result != wheel_code::RPC_FAIL && result != wheel_code::RPC_TIMEOUT && ++answers < ANSWERS_IN_A_ROW);
    if (answers == ANSWERS_IN_A_ROW) return true;
  }
  return false;
}

/** Why the master is lost, or nothing. */
std::string whyLost(const std::string& address, Store& store) {
  const std::string why = whyUnreachable(address, CONNECT_TIMEOUT_MS);
  if (!why.empty()) return "the master does not answer: " + why;
  const int64_t answer = store.exists(ANSWER_PROBE_KEY);
  if (answer == wheel_code::RPC_TIMEOUT) return "the master does not answer in time";
  return answer == wheel_code::RPC_FAIL && !answersEverywhere(address, store) ? "the master cannot be reached" : "";
}

/**
 * Sees a master that goes away while nobody asks it anything. The wheel pings for stores that give memory only, so its own word is
 * not enough: without memory of its own it calls a dead master healthy for good.
 */
void watch(const std::shared_ptr<Connection>& connection, const std::weak_ptr<Pool>& watched, const std::string& address) {
  auto probeAt = Clock::now() + PROBE_INTERVAL;
  while (!connection->ended && !connection->isLost) {
    std::shared_ptr<Pool> pool = watched.lock();
    if (pool == nullptr) return;
    try {
      if (pool->store->health() != 0) {
        connection->lose("the master does not answer");
      } else if (Clock::now() >= probeAt) {
        const std::string why = whyLost(address, *pool->store);
        if (!why.empty()) connection->lose(why);
        probeAt = Clock::now() + PROBE_INTERVAL;
      }
    } catch (const python::Raised&) {
      // Says nothing about the master; calls will.
    }
    pool.reset();
    std::this_thread::sleep_for(WATCH_INTERVAL);
  }
}

}  // namespace

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
    parked->put(pool);
  }
  report(reason);
}

std::shared_ptr<Pool> Connection::end() {
  std::lock_guard lock(mutex_);
  ended = true;
  return isLost ? nullptr : std::exchange(pool, nullptr);
}

void MooncakeEngine::open(Lost lost) {
  Store::importWheel(options_);
  const bool first = parked_->isFirstOpen();
  std::shared_ptr<Pool> pool = reviveParked();
  if (pool == nullptr) {
    requireMaster(first);
    pool = std::make_shared<Pool>(Store::setUp(options_), limits_.stagingBytes);
  }
  connection_->pool = std::move(pool);
  connection_->parked = parked_;
  connection_->report = std::move(lost);
  startDetached("kv-watch", [connection = connection_, watched = std::weak_ptr(connection_->pool), address = options_.masterServerAddress] {
    watch(connection, watched, address);
  });
}

void MooncakeEngine::requireMaster(bool first) const {
  const auto deadline = Clock::now() + MASTER_TIMEOUT;
  for (;;) {
    const std::string why = whyUnreachable(options_.masterServerAddress, CONNECT_TIMEOUT_MS);
    if (why.empty()) return;
    if (first || Clock::now() > deadline) throw unreachable(options_.masterServerAddress, why);
    std::this_thread::sleep_for(CONNECT_POLL);
  }
}

std::shared_ptr<Pool> MooncakeEngine::reviveParked() {
  std::shared_ptr<Pool> pool = parked_->take();
  if (pool == nullptr) return nullptr;
  const auto deadline = Clock::now() + MASTER_TIMEOUT;
  // A wheel that has not noticed the loss does so with its next ping, and only then gives its memory to the new master.
  bool noticed = options_.globalSegmentBytes == 0;
  std::optional<Clock::time_point> answersSince;
  do {
    if (pool->store->health() != 0) {
      noticed = true;
    } else if (!answersEverywhere(options_.masterServerAddress, *pool->store)) {
      answersSince.reset();
    } else {
      if (!answersSince) answersSince = Clock::now();
      if (noticed || Clock::now() - *answersSince >= PING_AND_MOUNT) {
        parked_->isStuck(false);
        return pool;
      }
    }
    std::this_thread::sleep_for(HEALTH_POLL);
  } while (Clock::now() < deadline);
  const std::string why = whyUnreachable(options_.masterServerAddress, CONNECT_TIMEOUT_MS);
  if (parked_->isStuck(why.empty())) return nullptr;
  parked_->put(std::move(pool));
  throw unreachable(options_.masterServerAddress, why);
}

MooncakeEngine::~MooncakeEngine() {
  connection_->end();
  if (connection_->pool == nullptr) return;
  // A connection that was let go of while a call hung in it: nobody has unregistered.
  for (const auto& [address, bytes] : registered_) {
    try {
      store().unregisterMemory(address, bytes);
    } catch (const python::Raised&) {
      // The store keeps a stale range; the next registration of it fails and says so.
    }
  }
}

void MooncakeEngine::close() {
  std::shared_ptr<Pool> pool = connection_->end();
  if (pool == nullptr) return;
  const auto deadline = Clock::now() + LAST_HOLDER_TIMEOUT;
  while (pool.use_count() > 1 && Clock::now() < deadline) std::this_thread::sleep_for(HEALTH_POLL);
  std::shared_ptr<Store> store = pool->store;
  pool.reset();
  if (store.use_count() == 1) store->close();
}

void MooncakeEngine::registerMemory(const Memory& memory) {
  int64_t code = 0;
  std::string said;
  try {
    code = store().registerMemory(memory.data(), memory.bytes());
  } catch (const python::Raised& raised) {
    said = std::string(": ") + raised.what();
  }
  if (code != 0 || !said.empty()) {
    throw Error("REGISTRATION_REFUSED", "regionId", std::to_string(memory.bytes()) + " bytes",
                "the store does not register this KV memory (code " + std::to_string(code) + ")" + said,
                options_.protocol == "rdma" ? "Raise the limit of locked memory (ulimit -l unlimited) and see that device_name has a port that is up."
                                            : "See the store's log; memory that overlaps registered memory is refused.");
  }
  std::lock_guard lock(registeredMutex_);
  registered_.emplace_back(memory.data(), memory.bytes());
}

void MooncakeEngine::unregisterMemory(const Memory& memory) {
  {
    std::lock_guard lock(registeredMutex_);
    std::erase(registered_, std::pair(static_cast<const uint8_t*>(memory.data()), static_cast<uint64_t>(memory.bytes())));
  }
  store().unregisterMemory(memory.data(), memory.bytes());
}

EngineStatistics MooncakeEngine::statistics() const {
  const auto read = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  // Size and use of the pool are the master's to tell.
  return {.puts = read(puts_), .putRefusals = read(putRefusals_), .gets = read(gets_), .getMisses = read(getMisses_)};
}

}  // namespace mooncake_kv::mooncake
