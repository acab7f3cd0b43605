#include "core/engine_host.h"

#include <algorithm>
#include <array>
#include <exception>
#include <thread>
#include <utility>

#include "core/apart.h"
#include "core/clock.h"
#include "core/codes.h"
#include "core/layout.h"

namespace mooncake_kv {

namespace {

enum Lane : size_t { SHARED, EXISTS, GET, PUT, CONTROL, LANES };

constexpr auto CLOSE_POLL = std::chrono::milliseconds(5);

std::array<uint32_t, LANES> limitsOf(const LaneThreads& threads) {
  if (threads.shared == 0 && std::min({threads.exists, threads.get, threads.put, threads.control}) == 0) {
    throw invalidValue("lanes", "0", "each class of operations needs threads", "Give shared threads, or some to every class.");
  }
  std::array<uint32_t, LANES> limits{};
  limits[SHARED] = threads.shared;
  limits[EXISTS] = threads.exists;
  limits[GET] = threads.get;
  limits[PUT] = threads.put;
  limits[CONTROL] = threads.control;
  return limits;
}

size_t transitBuffers(const EngineHost::Options& options) {
  if (options.transitBuffersMax > 0) return options.transitBuffersMax;
  const LaneThreads& lanes = options.traits.lanes;
  return size_t{lanes.shared} + lanes.get + lanes.put + IoThreads::REPLACED_MAX;
}

}  // namespace

EngineHost::EngineHost(Options options)
    : options_(std::move(options)), transit_(transitBuffers(options_)), threads_(limitsOf(options_.traits.lanes), options_.traits.spins) {}

size_t EngineHost::laneOf(int32_t operation) const {
  size_t lane = CONTROL;
  if (operation == layout::OPERATION_EXISTS) lane = EXISTS;
  if (operation == layout::OPERATION_GET) lane = GET;
  if (operation == layout::OPERATION_PUT) lane = PUT;
  return threads_.limit(lane) == 0 ? size_t{SHARED} : lane;
}

EngineHost::Status EngineHost::status() const {
  const uint64_t hungSince =
      monotonicNanoseconds() - static_cast<uint64_t>(std::chrono::nanoseconds(options_.hungAfter).count());
  Status status;
  status.hungCalls = threads_.busySince(hungSince);
  std::lock_guard lock(mutex_);
  status.state = state();
  if (error_ != nullptr) status.error.emplace(*error_);
  status.reopenings = openings_ > 0 ? openings_ - 1 : 0;
  status.hungOpens = hungOpens_;
  status.transitRefusals = transit_.refusals();
  status.batchesInFlight = running();
  status.callsInFlight = calls_;
  return status;
}

EngineStatistics EngineHost::statistics() const {
  const std::shared_ptr<EngineConnection> connection = this->connection();
  return connection == nullptr ? EngineStatistics{} : connection->engine->statistics();
}

std::shared_ptr<EngineConnection> EngineHost::connection() const {
  std::lock_guard lock(mutex_);
  // What was taken before the engine was closed is worked off; afterwards there is no connection any more.
  return state() == EngineState::open || state() == EngineState::closed ? connection_ : nullptr;
}

void EngineHost::useMemory(std::span<const std::shared_ptr<Memory>> memories, uint64_t valueBytesMax) {
  if (!options_.traits.mayHang) return;
  const auto isHost = [](const auto& memory) { return memory->kind() == Memory::Kind::host; };
  // An engine that takes no more memory is to say so before it is OPEN.
  const Transit::Lease first = std::any_of(memories.begin(), memories.end(), isHost) ? transit_.take(valueBytesMax) : Transit::Lease();
  std::lock_guard lock(mutex_);
  const auto use = [&](const std::shared_ptr<Memory>& memory) {
    if (std::find(memories_.begin(), memories_.end(), memory) == memories_.end()) memories_.push_back(memory);
  };
  if (first) use(first.memory());
  for (const auto& memory : memories) {
    if (!isHost(memory)) use(memory);
  }
}

int32_t EngineHost::countIn() {
  std::lock_guard lock(mutex_);
  if (state() == EngineState::closed) return code::CLOSED;
  if (state() != EngineState::open) return code::ENGINE_DOWN;
  inFlight_++;
  running_.fetch_add(1, std::memory_order_relaxed);
  return code::OK;
}

void EngineHost::countOut() {
  std::lock_guard lock(mutex_);
  if (--inFlight_ == 0) idle_.notify_all();
}

struct EngineHost::Call {
  std::shared_ptr<EngineHost> host;
  ControlRequest request;
  ControlDone done;
  IoThreads::Task task{runCall, this, 0, 0};
};

void EngineHost::call(ControlRequest request, ControlDone done) {
  // Before it is counted in: without memory there is no call.
  std::unique_ptr<Call> queued(new Call{shared_from_this(), std::move(request), std::move(done)});
  int32_t status = code::OK;
  {
    std::lock_guard lock(mutex_);
    if (state() == EngineState::closed) {
      status = code::CLOSED;
    } else if (state() != EngineState::open || calls_ == CALLS_MAX) {
      status = code::ENGINE_DOWN;
    } else {
      calls_++;
    }
  }
  if (status != code::OK) {
    queued->done({.status = status, .text = status == code::CLOSED ? "the engine is closed" : "the engine is not open, or its calls hang"});
    return;
  }
  push(layout::OPERATION_REMOVE, queued.release()->task);
}

void EngineHost::runCall(const IoThreads::Task& task) {
  const std::unique_ptr<Call> call(static_cast<Call*>(task.subject));
  ControlReply reply;
  try {
    const std::shared_ptr<EngineConnection> connection = call->host->connection();
    if (connection == nullptr) {
      reply = {.status = code::ENGINE_DOWN, .text = "the engine is not open"};
    } else {
      reply = connection->engine->control(call->request);
    }
  } catch (const std::exception& error) {
    reply = {.status = code::ENGINE_ERROR, .text = error.what()};
  }
  {
    std::lock_guard lock(call->host->mutex_);
    call->host->calls_--;
    call->host->idle_.notify_all();
  }
  call->done(std::move(reply));
}

uint32_t EngineHost::close(Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(mutex_);
  if (state() != EngineState::closed) {
    change(lock, EngineState::closed, nullptr);
    lock.lock();
  }
  const bool idle = idle_.wait_until(lock, deadline, [&] { return inFlight_ == 0 && calls_ == 0; });
  const uint32_t left = inFlight_;
  std::shared_ptr<EngineConnection> connection = idle ? std::exchange(connection_, nullptr) : nullptr;
  lock.unlock();
  if (connection != nullptr) letGo(std::move(connection), deadline);
  return left;
}

void EngineHost::letGo(std::shared_ptr<EngineConnection> connection, std::chrono::steady_clock::time_point deadline) {
  // Nobody gets the connection any more, so its holders only become fewer.
  while (connection.use_count() > 1) {
    if (std::chrono::steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(CLOSE_POLL);
  }
  if (!options_.traits.mayHang) {
    connection->close();
    return;
  }
  // A close that hangs keeps engine and memory for itself.
  runApart([connection = std::move(connection)] { connection->close(); }, deadline);
}

void EngineHost::change(std::unique_lock<std::mutex>& lock, EngineState state, std::unique_ptr<Error> error) {
  if (error != nullptr) error_ = std::move(error);
  state_.store(state, std::memory_order_release);
  changed_.notify_all();
  lock.unlock();
  if (options_.stateChanged) options_.stateChanged();
}

}  // namespace mooncake_kv
