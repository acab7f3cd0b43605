#include "engines/mooncake/mooncake_engine.h"

#include <algorithm>
#include <thread>

#include "core/codes.h"
#include "core/error.h"
#include "engines/mooncake/exit_hook.h"
#include "engines/mooncake/master_address.h"

namespace mooncake_kv::mooncake {

namespace {

using Clock = std::chrono::steady_clock;

/** How long an `open` waits for the master: the host's own pauses between two tries grow to 10 s, and a master is back in between. */
constexpr auto MASTER_TIMEOUT = std::chrono::seconds(8);
/** For a store that has found its master again by itself: the wheel pings once a second. */
constexpr auto HEALTH_POLL = std::chrono::milliseconds(50);
/** A ping, a second after the one before at the latest, and the mounting of memory that follows it. */
constexpr auto PING_AND_MOUNT = std::chrono::seconds(2);
constexpr auto CONNECT_POLL = std::chrono::milliseconds(250);
/** For the calls that are in the store, the watch's being the longest, and for the wheel's own end. */
constexpr auto CLOSE_TIMEOUT = std::chrono::seconds(15);

Error unreachable(const std::string& address, const std::string& why) {
  return Error("UNREACHABLE", "master_server_address", address, "the master does not answer" + (why.empty() ? "" : ": " + why),
               "Start it (mooncake_master --rpc_port PORT), or correct the address in the store's JSON file.");
}

}  // namespace

void MooncakeEngine::open(Lost lost) {
  Store::importWheel(options_);
  const bool first = parked_->isFirstOpen();
  std::shared_ptr<Pool> pool = reviveParked();
  if (pool == nullptr) {
    requireMaster(first);
    pool = std::make_shared<Pool>(Store::setUp(options_), limits_.stagingBytes);
    retireAtExit(pool);
  }
  connection_->pool = std::move(pool);
  connection_->parked = parked_;
  connection_->refused = refused_;
  connection_->report = std::move(lost);
  startWatch(connection_, options_.masterServerAddress);
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
  constexpr auto NEVER = Clock::time_point::max();
  auto answersSince = NEVER;
  do {
    const Pool::Visit visit = pool->visit();
    if (!visit) {
      // A call from before the loss has met a transfer that the wheel gave up: this store is closed instead.
      parked_->isStuck(false);
      return nullptr;
    }
    if (pool->store->health() != 0) {
      noticed = true;
    } else if (!answersEverywhere(options_.masterServerAddress, *pool->store)) {
      answersSince = NEVER;
    } else {
      answersSince = std::min(answersSince, Clock::now());
      if (noticed || Clock::now() - answersSince >= PING_AND_MOUNT) {
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
  const Pool::Visit visit = connection_->pool->visit();
  if (!visit) return;
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
  if (!connection_->end()) return;
  connection_->pool->retire();
  connection_->pool->awaitClosed(Clock::now() + CLOSE_TIMEOUT);
}

Pool::Visit MooncakeEngine::visit() {
  if (connection_->isLost) return {};
  Pool::Visit visit = connection_->pool->visit();
  // A call of an earlier connection made the pool retire, which this one had taken over.
  if (!visit) connection_->lose(GIVEN_UP);
  return visit;
}

void MooncakeEngine::registerMemory(const Memory& memory) {
  const Pool::Visit visit = this->visit();
  if (!visit) {
    throw Error("UNREACHABLE", "master_server_address", options_.masterServerAddress, "the connection was lost meanwhile",
                "It is opened again by itself; see the log for why it was lost.");
  }
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
  // Also after a loss: a parked store counts who holds a range.
  if (const Pool::Visit visit = connection_->pool->visit()) store().unregisterMemory(memory.data(), memory.bytes());
}

EngineStatistics MooncakeEngine::statistics() const {
  const auto read = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  // Size and use of the pool are the master's to tell.
  return {.puts = read(puts_), .putRefusals = read(putRefusals_), .gets = read(gets_), .getMisses = read(getMisses_)};
}

}  // namespace mooncake_kv::mooncake
