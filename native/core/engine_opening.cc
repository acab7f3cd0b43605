// How a host opens its engine, loses it and opens it again.
#include <algorithm>
#include <exception>
#include <utility>

#include "core/apart.h"
#include "core/clock.h"
#include "core/engine_host.h"

namespace mooncake_kv {

namespace {

using Clock = std::chrono::steady_clock;

bool isFinal(const Error& error) {
  return error.code == "CONFIGURATION" || error.code == "UNSUPPORTED" || error.code == "INVALID_VALUE" ||
         error.code == "INVALID_TYPE" || error.code == "REGISTRATION_REFUSED";
}

Error unreachable(const std::string& reason) {
  return Error("UNREACHABLE", "engine", "", reason, "It is opened again by itself; see that its peers run and can be reached.");
}

}  // namespace

/** One `open` on a thread of its own; all under the host's mutex. */
struct EngineHost::Attempt {
  bool ended = false;
  /** Nobody waits any more. */
  bool abandoned = false;
  /** What is being opened. */
  std::shared_ptr<Engine> engine;
  std::shared_ptr<EngineConnection> connection;
  std::unique_ptr<Error> error;
};

std::shared_ptr<EngineHost> EngineHost::open(Options options) {
  const auto host = std::make_shared<EngineHost>(std::move(options));
  if (host->options_.traits.mayHang) {
    startDetached("kv-keep-open", [host] { host->keepOpen(); });
    return host;
  }
  std::shared_ptr<Engine> engine = host->options_.make();
  engine->open([](const std::string&) {});
  std::unique_lock lock(host->mutex_);
  host->connection_ = std::make_shared<EngineConnection>(std::move(engine), ++host->generation_);
  host->openings_++;
  host->change(lock, EngineState::open, nullptr);
  return host;
}

void EngineHost::keepOpen() {
  Milliseconds delay = options_.retryFirst;
  const auto over = [&] { return state() == EngineState::closed || state() == EngineState::failed; };
  for (;;) {
    const bool opened = tryOpen();
    std::unique_lock lock(mutex_);
    if (opened) {
      const auto since = Clock::now();
      changed_.wait(lock, [&] { return state() != EngineState::open; });
      if (state() == EngineState::closed) return;
      // One that is lost as soon as it is open must not be opened four times a second.
      if (Clock::now() - since > options_.retryLast) delay = options_.retryFirst;
      std::shared_ptr<EngineConnection> old = std::exchange(connection_, nullptr);
      lock.unlock();
      letGo(std::move(old), Clock::now() + options_.letGoTimeout);
      lock.lock();
    }
    if (changed_.wait_for(lock, over() ? Milliseconds(0) : delay, over)) return;
    delay = std::min(delay * 2, options_.retryLast);
  }
}

bool EngineHost::tryOpen() {
  const auto attempt = std::make_shared<Attempt>();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return hungOpens_ < options_.hungOpensMax || state() == EngineState::closed; });
  if (state() == EngineState::closed) return false;
  const uint32_t generation = ++generation_;
  const auto self = shared_from_this();
  try {
    startDetached("kv-open", [self, attempt, generation] { self->runAttempt(*attempt, generation); });
  } catch (const std::exception& error) {
    change(lock, EngineState::down, std::make_unique<Error>(unreachable(std::string("there is no thread for its set-up: ") + error.what())));
    return false;
  }
  const bool ended = changed_.wait_for(lock, options_.openTimeout, [&] { return attempt->ended || state() == EngineState::closed; });
  if (!ended || !attempt->ended) {
    attempt->abandoned = true;
    hungOpens_++;
    const std::shared_ptr<Engine> engine = attempt->engine;
    if (state() == EngineState::closed) {
      lock.unlock();
    } else {
      change(lock, EngineState::down, std::make_unique<Error>(unreachable("its set-up does not return")));
    }
    if (engine != nullptr) engine->abandon();
    return false;
  }
  if (state() == EngineState::closed) {
    lock.unlock();
    if (attempt->connection != nullptr) letGo(std::exchange(attempt->connection, nullptr), Clock::now() + options_.letGoTimeout);
    return false;
  }
  if (attempt->connection != nullptr && lostGeneration_ < generation) {
    connection_ = std::exchange(attempt->connection, nullptr);
    openings_++;
    // Calls that hang in an earlier connection have their threads; this one needs its own.
    if (openings_ > 1) threads_.replaceBusySince(monotonicNanoseconds());
    change(lock, EngineState::open, nullptr);
    return true;
  }
  std::shared_ptr<EngineConnection> lostEarly = std::exchange(attempt->connection, nullptr);
  std::unique_ptr<Error> error = lostEarly == nullptr ? std::move(attempt->error) : std::make_unique<Error>(unreachable("lost at once"));
  // On its own line: as an argument it may be asked of a pointer that has been moved from.
  const EngineState next = isFinal(*error) ? EngineState::failed : EngineState::down;
  change(lock, next, std::move(error));
  if (lostEarly != nullptr) letGo(std::move(lostEarly), Clock::now() + options_.letGoTimeout);
  return false;
}

void EngineHost::runAttempt(Attempt& attempt, uint32_t generation) {
  std::shared_ptr<EngineConnection> connection;
  std::unique_ptr<Error> error;
  try {
    std::shared_ptr<Engine> engine = options_.make();
    {
      std::lock_guard lock(mutex_);
      if (attempt.abandoned) throw unreachable("nobody waits for it any more");
      attempt.engine = engine;
    }
    engine->open([weak = weak_from_this(), generation](const std::string& reason) {
      if (const auto host = weak.lock()) host->lost(generation, reason);
    });
    connection = std::make_shared<EngineConnection>(std::move(engine), generation);
    // What has been named while it opened, too.
    for (size_t known = 0;;) {
      std::unique_lock lock(mutex_);
      const std::vector<std::shared_ptr<Memory>> memories = memories_;
      lock.unlock();
      if (memories.size() == known) break;
      connection->ensureRegistered(memories);
      known = memories.size();
    }
  } catch (const Error& thrown) {
    error = std::make_unique<Error>(thrown);
  } catch (const std::exception& thrown) {
    error = std::make_unique<Error>(unreachable(thrown.what()));
  }
  if (error != nullptr && connection != nullptr) std::exchange(connection, nullptr)->close();
  // It is destroyed outside of the lock.
  std::shared_ptr<Engine> opened;
  std::unique_lock lock(mutex_);
  opened.swap(attempt.engine);
  attempt.ended = true;
  attempt.error = std::move(error);
  if (!attempt.abandoned) {
    attempt.connection = std::move(connection);
    changed_.notify_all();
    return;
  }
  hungOpens_--;
  changed_.notify_all();
  lock.unlock();
  if (connection != nullptr) connection->close();
}

void EngineHost::lost(uint32_t generation, const std::string& reason) {
  std::unique_lock lock(mutex_);
  lostGeneration_ = std::max(lostGeneration_, generation);
  if (state() != EngineState::open || connection_ == nullptr || connection_->generation != generation) return;
  change(lock, EngineState::down, std::make_unique<Error>(unreachable(reason)));
}

void EngineHost::fail(const EngineConnection& connection, const Error& error) {
  std::unique_lock lock(mutex_);
  if (state() != EngineState::open || connection_.get() != &connection) return;
  change(lock, EngineState::failed, std::make_unique<Error>(error));
}

}  // namespace mooncake_kv
