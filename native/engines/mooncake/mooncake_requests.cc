// Requests of keys and values: cut into calls, each with its results read back.
#include <algorithm>
#include <utility>

#include "core/codes.h"
#include "core/copy.h"
#include "core/layout.h"
#include "engines/mooncake/mooncake_engine.h"

namespace mooncake_kv::mooncake {

namespace {

using Clock = Pool::Clock;
using wheel_code::isUnanswered;

bool anyUnanswered(const std::vector<int32_t>& wheelCodes) { return std::any_of(wheelCodes.begin(), wheelCodes.end(), isUnanswered); }

bool anyTransferFailed(const std::vector<int32_t>& wheelCodes) {
  return std::find(wheelCodes.begin(), wheelCodes.end(), wheel_code::TRANSFER_FAIL) != wheelCodes.end();
}

const char* whyUnanswered(int32_t wheelCode) {
  return wheelCode == wheel_code::RPC_TIMEOUT ? "the master does not answer in time" : "the master cannot be reached";
}

}  // namespace

int32_t MooncakeEngine::run(PoolRequest& request) {
  Pool::Visit visit = this->visit();
  if (!visit) {
    request.setResults(code::ENGINE_DOWN);
    return code::ENGINE_DOWN;
  }
  python::keepThreadState();
  switch (request.operation()) {
    case layout::OPERATION_EXISTS:
      return runExists(request);
    case layout::OPERATION_PUT:
      return runPut(request, visit);
    case layout::OPERATION_GET:
      return runGet(request, visit);
    case layout::OPERATION_REMOVE:
      return runRemove(request);
    case layout::OPERATION_REMOVE_ALL: {
      // Others may be reading: what they have leased stays, as with REMOVE.
      const int64_t removed = store().removeAll(false);
      if (removed >= 0) return code::OK;
      const auto wheelCode = static_cast<int32_t>(removed);
      return isUnanswered(wheelCode) ? goDown(request, 0, whyUnanswered(wheelCode)) : code::ENGINE_ERROR;
    }
    default:
      return code::ENGINE_ERROR;
  }
}

int32_t MooncakeEngine::goDown(PoolRequest& request, uint32_t from, const char* reason) {
  for (uint32_t index = from; index < request.count(); index++) request.setResult(index, code::ENGINE_DOWN);
  connection_->lose(reason);
  return code::ENGINE_DOWN;
}

void MooncakeEngine::endTransfer(Pool::Visit& visit, Clock::time_point began, bool failed) {
  if (!failed || Clock::now() - began < wheelGivesUpAfter_) return;
  visit.giveUp();
  connection_->lose(GIVEN_UP);
}

int32_t MooncakeEngine::runExists(PoolRequest& request) {
  std::vector<int32_t> results;
  for (uint32_t from = 0; from < request.count();) {
    const uint32_t to = static_cast<uint32_t>(std::min<uint64_t>(request.count(), uint64_t{from} + limits_.keysMax));
    askExists(request, from, to, results);
    for (uint32_t index = from; index < to; index++) {
      const int32_t result = results[index - from];
      if (isUnanswered(result)) return goDown(request, from, whyUnanswered(result));
      request.setResult(index, result < 0 ? code::ENGINE_ERROR : result);
    }
    from = to;
  }
  return code::OK;
}

int32_t MooncakeEngine::runRemove(PoolRequest& request) {
  std::vector<int32_t> results;
  for (uint32_t from = 0; from < request.count();) {
    const uint32_t to = static_cast<uint32_t>(std::min<uint64_t>(request.count(), uint64_t{from} + limits_.keysMax));
    store().remove(request, from, to, results);
    for (uint32_t index = from; index < to; index++) {
      const int32_t result = results[index - from];
      if (isUnanswered(result)) return goDown(request, from, whyUnanswered(result));
      request.setResult(index, result == 0 || result == code::OBJECT_NOT_FOUND ? result : code::ENGINE_ERROR);
    }
    from = to;
  }
  return code::OK;
}

std::pair<PlannedCall, Staging::Lease> MooncakeEngine::nextCallStaged(const PoolRequest& request, uint32_t from) {
  const PlannedCall call = nextCall(request, from, limits_);
  if (!call.staged) return {call, Staging::Lease()};
  if (Staging::Lease staging = connection_->pool->staging.take(); staging) return {call, std::move(staging)};
  // All segments of such a call would be more pieces than the queue of transfers has room for.
  CallLimits inPlace = limits_;
  inPlace.stagingBytes = 0;
  return {nextCall(request, from, inPlace), Staging::Lease()};
}

int32_t MooncakeEngine::runPut(PoolRequest& request, Pool::Visit& visit) {
  Transfer transfer;
  std::vector<int32_t> results;
  for (uint32_t from = 0; from < request.count();) {
    if (connection_->pool->isRetired()) return goDown(request, from, GIVEN_UP);
    const auto [call, staging] = nextCallStaged(request, from);
    if (staging) gather(request, call, staging.data());
    fillTransfer(request, call, limits_, staging.data(), transfer);
    if (refused_->count() > 0) removeRefused(request, call);
    const auto began = Clock::now();
    if (options_.verify != Verify::off && store().knowsSteps()) {
      putChecked(request, call, staging.data(), transfer, results);
    } else {
      store().put(request, transfer, results);
    }
    endTransfer(visit, began, anyTransferFailed(results));
    puts_.fetch_add(results.size(), std::memory_order_relaxed);
    for (uint32_t index = call.from; index < call.to; index++) {
      const int32_t result = results[index - call.from];
      if (isUnanswered(result)) return goDown(request, call.from, whyUnanswered(result));
      if (result == code::NO_AVAILABLE_HANDLE) putRefusals_.fetch_add(1, std::memory_order_relaxed);
      request.setResult(index, putResult(request, index, result));
    }
    from = call.to;
  }
  return code::OK;
}

int32_t MooncakeEngine::putResult(const PoolRequest& request, uint32_t index, int32_t wheelCode) {
  const auto bytes = static_cast<int32_t>(request.valueBytes(index));
  const bool refused = refused_->contains(request.key(index), RefusedKeys::Clock::now());
  if (wheelCode == 0) {
    // Without puts in steps nobody can say whether it is this value that is there.
    if (refused && !store().knowsSteps()) return code::OBJECT_HAS_LEASE;
    if (refused) refused_->forget(request.key(index));
    return bytes;
  }
  // Keys are content-addressed: a value that is there already is the value, unless it was refused.
  if (wheelCode == wheel_code::OBJECT_ALREADY_EXISTS) return refused ? code::OBJECT_HAS_LEASE : bytes;
  return wheelCode == code::NO_AVAILABLE_HANDLE ? wheelCode : code::ENGINE_ERROR;
}

int32_t MooncakeEngine::runGet(PoolRequest& request, Pool::Visit& visit) {
  Transfer transfer;
  ReplicaLists before;
  std::vector<int32_t> results;
  bool sizesDiffer = true;
  for (uint32_t from = 0; from < request.count();) {
    if (connection_->pool->isRetired()) return goDown(request, from, GIVEN_UP);
    const auto [call, staging] = nextCallStaged(request, from);
    fillTransfer(request, call, limits_, staging.data(), transfer);
    if (options_.checkRemovals || options_.reportTiers) {
      store().replicas(request, transfer.keys, before);
      if (before.empty()) {
        // So answers a master that is gone, too; a get would wait for it once more.
        if (!masterAnswers()) return goDown(request, call.from, whyUnanswered(wheel_code::RPC_FAIL));
        for (uint32_t index = call.from; index < call.to; index++) setMiss(request, index);
        from = call.to;
        continue;
      }
    }
    const auto began = Clock::now();
    store().get(request, transfer, results);
    readAlone(request, call, transfer, results);
    endTransfer(visit, began, anyTransferFailed(results));
    gets_.fetch_add(results.size(), std::memory_order_relaxed);
    // A peer that holds a value may be what is gone: then the master still answers.
    if (anyUnanswered(results) && !masterAnswers()) return goDown(request, call.from, whyUnanswered(wheel_code::RPC_FAIL));
    for (uint32_t index = call.from; index < call.to; index++) readResult(request, index, results[index - call.from], sizesDiffer);
    refuseUnreadable(request, call, before, results);
    const bool answered = (!options_.checkRemovals || refuseRemoved(request, call, before)) &&
                          (options_.verify == Verify::off || checkArrived(request, call, staging.data()));
    if (!answered) return goDown(request, call.from, whyUnanswered(wheel_code::RPC_FAIL));
    const uint8_t* staged = staging.data();
    for (uint32_t index = call.from; index < call.to; index++) {
      if (request.result(index) >= 0) {
        if (staging) scatterValue(request, index, staged);
        // The first replica is the one that a get takes.
        if (options_.reportTiers && !before.of(index - call.from).empty()) {
          request.setTier(index, request.tier(index) | before.of(index - call.from)[0].tier);
        }
      }
      if (staging) staged += request.valueBytes(index);
    }
    from = call.to;
  }
  return code::OK;
}

bool MooncakeEngine::refuseRemoved(PoolRequest& request, const PlannedCall& call, const ReplicaLists& before) {
  std::vector<uint32_t> arrived;
  for (uint32_t index = call.from; index < call.to; index++) {
    if (request.result(index) >= 0) arrived.push_back(index);
  }
  if (arrived.empty()) return true;
  ReplicaLists after;
  store().replicas(request, arrived, after);
  if (after.empty() && !masterAnswers()) return false;
  for (size_t nth = 0; nth < arrived.size(); nth++) {
    if (!remains(before.of(arrived[nth] - call.from), after.of(nth))) request.setResult(arrived[nth], code::REMOVED_UNDER_READ);
  }
  return true;
}

void MooncakeEngine::setMiss(PoolRequest& request, uint32_t index) {
  getMisses_.fetch_add(1, std::memory_order_relaxed);
  request.setResult(index, code::OBJECT_NOT_FOUND);
}

/** `sizesDiffer`: whether it is worth asking for the size of a value whose get failed; false after one that was right. */
void MooncakeEngine::readResult(PoolRequest& request, uint32_t index, int32_t wheelCode, bool& sizesDiffer) {
  const int64_t wanted = static_cast<int64_t>(request.valueBytes(index));
  if (wheelCode == wanted) {
    request.setResult(index, wheelCode);
    return;
  }
  int32_t result = code::ENGINE_ERROR;
  if (wheelCode == code::OBJECT_NOT_FOUND || wheelCode == wheel_code::REPLICA_IS_NOT_READY) {
    setMiss(request, index);
    return;
  }
  if (wheelCode == code::BUFFER_SMALLER || wheelCode == wheel_code::TRANSFER_FAIL) {
    // The wheel says the same of a buffer that is too large and of a transfer that failed.
    const int64_t is = sizesDiffer ? store().size(std::string(request.key(index))) : wanted;
    sizesDiffer = is >= 0 && is != wanted;
    if (sizesDiffer) {
      result = wanted < is ? code::BUFFER_SMALLER : code::BUFFER_LARGER;
      request.setWrongBytes(index, static_cast<uint64_t>(is));
    }
  }
  request.setResult(index, result);
}

bool MooncakeEngine::masterAnswers() { return !isUnanswered(static_cast<int32_t>(store().exists(ANSWER_PROBE_KEY))); }

}  // namespace mooncake_kv::mooncake
