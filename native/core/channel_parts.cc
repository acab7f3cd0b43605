// How a batch is cut into parts and what an I/O thread does with one of them.
#include <algorithm>
#include <exception>
#include <new>

#include "core/channel.h"
#include "core/clock.h"
#include "core/codes.h"
#include "core/error.h"
#include "core/layout.h"

namespace mooncake_kv {

uint32_t Channel::partsOf(const Batch& batch) const {
  const EngineTraits& traits = options_.engine->traits();
  uint64_t parts = 1;
  if (batch.operation_ == layout::OPERATION_EXISTS) {
    if (traits.partKeysMin > 0) parts = batch.count_ / traits.partKeysMin;
  } else if (traits.partBytesMin > 0 && movesBytes(batch.operation_) && batch.count_ > 1) {
    const int32_t group = batch.entry(0)[layout::ENTRY_GROUP];
    // Each part would take a buffer in transit.
    if (!batch.keySpace_->hasBlock(group, 0) || (traits.mayHang && batch.keySpace_->borrowsBlocks())) return 1;
    parts = batch.count_ * batch.keySpace_->valueBytes(group) / traits.partBytesMin;
  }
  if (parts < 2) return 1;
  const uint64_t partsMax = std::min(batch.count_, options_.engine->threadsOf(batch.operation_));
  return static_cast<uint32_t>(std::min(parts, partsMax));
}

void Channel::runPart(const IoThreads::Task& task) {
  Batch& batch = *static_cast<Batch*>(task.subject);
  uint64_t notStarted = 0;
  batch.startedNanoseconds_.compare_exchange_strong(notStarted, monotonicNanoseconds());
  const std::shared_ptr<Channel> channel = batch.channel_;
  const int32_t status = channel->run(batch, task.from, task.to);
  // Of parts that fail differently the lowest code counts, whichever ends last: ENGINE_DOWN says more than ENGINE_ERROR.
  int32_t worst = batch.status_.load(std::memory_order_relaxed);
  while (status < worst && !batch.status_.compare_exchange_weak(worst, status, std::memory_order_relaxed)) {
  }
  // Release and acquire order the results of all parts before the completion, which the last part makes.
  if (batch.partsLeft_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  EngineHost& host = *channel->options_.engine;
  host.countDone();
  if (const Entered memory(*channel->options_.memory); memory) {
    channel->complete(batch);
  } else {
    channel->drop(batch);
  }
  host.countOut();
}

int32_t Channel::run(const Batch& batch, uint32_t from, uint32_t to) {
  // Buffers of the thread: nothing is allocated for a key once they have grown.
  static thread_local PoolRequest request;
  static thread_local std::vector<uint32_t> places;
  const KeySpace* keySpace = batch.keySpace_.get();
  int32_t status = code::OK;
  request.begin(batch.operation_);
  places.clear();
  if (keySpace != nullptr && !keySpace->enter()) {
    status = code::CLOSED;
  } else {
    const bool filled = keySpace == nullptr || tryFill(request, places, batch, from, to);
    // What an engine that may hang touches is no JavaScript thread's, and the batch or the buffer's lease holds it.
    const bool mayHang = options_.engine->traits().mayHang;
    if (keySpace != nullptr && mayHang) keySpace->leave();
    status = filled ? answer(*options_.engine, keySpace, request) : code::ENGINE_ERROR;
    if (keySpace != nullptr && !mayHang) keySpace->leave();
  }
  if (const Entered memory(*options_.memory); memory) {
    // A key that the entry does not name was never asked for. An engine that failed as a whole has failed for every key.
    std::fill(batch.results_ + from, batch.results_ + to, status == code::OK ? code::BAD_ENTRY : status);
    std::fill(batch.tiers_ + from, batch.tiers_ + to, layout::TIER_UNKNOWN);
    for (uint32_t index = 0; index < places.size(); index++) {
      batch.results_[places[index]] = request.result(index);
      batch.tiers_[places[index]] = request.tier(index);
    }
  }
  return status;
}

bool Channel::tryFill(PoolRequest& request, std::vector<uint32_t>& places, const Batch& batch, uint32_t from, uint32_t to) {
  const Entered memory(*options_.memory);
  if (!memory) return true;
  try {
    fill(request, places, batch, from, to);
    return true;
  } catch (const std::bad_alloc&) {
    request.begin(batch.operation_);
    places.clear();
    return false;
  }
}

void Channel::fill(PoolRequest& request, std::vector<uint32_t>& places, const Batch& batch, uint32_t from, uint32_t to) {
  const KeySpace& keySpace = *batch.keySpace_;
  const bool moves = movesBytes(batch.operation_);
  for (uint32_t index = from; index < to; index++) {
    const int32_t* entry = batch.entry(index);
    const int32_t group = entry[layout::ENTRY_GROUP];
    const int32_t block = entry[layout::ENTRY_BLOCK];
    if (moves && !keySpace.hasBlock(group, block)) continue;
    if (!keySpace.addKey(entry[layout::ENTRY_PREFIX], entry[layout::ENTRY_HASH_ROW], request)) continue;
    if (moves) keySpace.addSegments(group, block, request);
    places.push_back(index);
  }
}

int32_t Channel::answer(EngineHost& host, const KeySpace* keySpace, PoolRequest& request) {
  const bool moves = host.traits().mayHang && keySpace != nullptr && movesBytes(request.operation());
  int32_t status = code::ENGINE_ERROR;
  try {
    if (moves && keySpace->borrowsBlocks()) {
      status = askInTransit(host, *keySpace, request);
    } else {
      status = ask(host, moves ? keySpace->blockMemories() : Memories(), request);
    }
  } catch (const std::exception&) {
    // Out of memory, in the main. What the part did is unknown, so all of it has failed.
  }
  if (status != code::OK) request.setResults(status);
  return status;
}

int32_t Channel::ask(EngineHost& host, Memories memories, PoolRequest& request) {
  const std::shared_ptr<EngineConnection> connection = host.connection();
  if (connection == nullptr) return code::ENGINE_DOWN;
  const int32_t reached = reach(host, *connection, memories);
  return reached == code::OK ? connection->engine->run(request) : reached;
}

int32_t Channel::reach(EngineHost& host, EngineConnection& connection, Memories memories) {
  if (memories.empty()) return code::OK;
  try {
    connection.ensureRegistered(memories);
    return code::OK;
  } catch (const Error& error) {
    // The connection was lost meanwhile, which says nothing about the memory; the next one is told of it again.
    if (error.code == "UNREACHABLE") return code::ENGINE_DOWN;
    host.fail(connection, error);
  } catch (const std::exception& error) {
    host.fail(connection, Error("REGISTRATION_REFUSED", "segments", "", error.what(), "See the engine's log."));
  }
  return code::REGISTRATION_REFUSED;
}

}  // namespace mooncake_kv
