// Values that are not to be used: which they are, and how they go.
#include <algorithm>
#include <chrono>

#include "core/codes.h"
#include "core/layout.h"
#include "engines/mooncake/checksums.h"
#include "engines/mooncake/mooncake_engine.h"
#include "engines/mooncake/refused_values.h"

namespace mooncake_kv::mooncake {

namespace {

using wheel_code::isUnanswered;

/** So many values of a call that failed are asked for alone; the rest of the call stays failed. */
constexpr uint32_t ALONE_MAX = 256;

}  // namespace

void MooncakeEngine::refuse(PoolRequest& request, uint32_t index, int32_t code) {
  const std::string key(request.key(index));
  request.setResult(index, code);
  const auto now = RefusedKeys::Clock::now();
  if (refused_->contains(key, now)) return;
  bool claimed = true;
  if (store().knowsSteps()) {
    // One member has it until the window ends, and then another may: one that died must not keep the value for ever.
    const auto window = std::chrono::system_clock::now().time_since_epoch() / RefusedKeys::KEPT_CLAIMED;
    const Names claim{checksumMarkOf(key) + "!" + std::to_string(window)};
    std::vector<int32_t> started;
    store().startPut(claim, {1}, {key}, started);
    claimed = started[0] == 0;
    if (claimed) store().endPut(claim, started);
  }
  refused_->add(key, claimed, now);
}

void MooncakeEngine::removeRefused(const PoolRequest& request, const PlannedCall& call) {
  Names keys;
  for (uint32_t index = call.from; index < call.to; index++) {
    if (refused_->isClaimed(request.key(index))) keys.emplace_back(request.key(index));
  }
  removeRefusedKeys(store(), keys, *refused_);
}

void removeRefusedKeys(Store& store, const Names& keys, RefusedKeys& refused) {
  if (keys.empty()) return;
  std::vector<int32_t> results;
  store.remove(keys, results);
  Names marks;
  for (size_t nth = 0; nth < keys.size(); nth++) {
    if (results[nth] != 0 && results[nth] != code::OBJECT_NOT_FOUND) continue;
    marks.push_back(checksumMarkOf(keys[nth]));
    refused.forget(keys[nth]);
  }
  // Not before the value is gone, which everybody would use without it. What is left of its checksums is that of good values.
  if (!marks.empty()) store.remove(marks, results);
}

void MooncakeEngine::readAlone(PoolRequest& request, const PlannedCall& call, const Transfer& transfer, std::vector<int32_t>& results) {
  uint32_t tries = 0;
  if (std::count_if(results.begin(), results.end(), wheel_code::isOfFile) < 2) return;
  std::vector<int32_t> alone;
  for (uint32_t index = call.from; index < call.to && tries < ALONE_MAX; index++) {
    int32_t& result = results[index - call.from];
    if (!wheel_code::isOfFile(result)) continue;
    tries++;
    store().get(request, partOf(transfer, [&](uint32_t other) { return other == index; }), alone);
    result = alone[0];
  }
}

void MooncakeEngine::refuseUnreadable(PoolRequest& request, const PlannedCall& call, const ReplicaLists& before,
                                      const std::vector<int32_t>& results) {
  const auto now = RefusedKeys::Clock::now();
  uint32_t tries = 0;
  for (uint32_t index = call.from; index < call.to; index++) {
    const int32_t result = results[index - call.from];
    if (wheel_code::isOfFile(result)) {
      // The owner is there and says that it cannot read it. Beyond so many it was not asked for alone.
      if (tries++ < ALONE_MAX) refuse(request, index, code::VALUE_UNREADABLE);
      continue;
    }
    if (request.result(index) != code::ENGINE_ERROR || isUnanswered(result) || index - call.from >= before.keys()) continue;
    const auto places = before.of(index - call.from);
    const auto isServed = [&](uint32_t other) {
      const auto others = before.of(other - call.from);
      return request.result(other) >= 0 && !others.empty() && others[0].tier == places[0].tier && others[0].place == places[0].place;
    };
    bool served = false;
    for (uint32_t other = call.from; other < call.to && !places.empty() && !served; other++) served = isServed(other);
    if (served && refused_->failsForGood(request.key(index), now)) refuse(request, index, code::VALUE_UNREADABLE);
  }
}

void MooncakeEngine::askExists(PoolRequest& request, uint32_t from, uint32_t to, std::vector<int32_t>& results) {
  const bool requires_ = options_.verify == Verify::require;
  if (refused_->count() == 0 && !requires_) return store().exists(request, from, to, results);
  const auto now = RefusedKeys::Clock::now();
  Names asked;
  std::vector<uint32_t> places;
  for (uint32_t index = from; index < to; index++) {
    // Not asked for: that would lease them, and they are to go.
    if (refused_->contains(request.key(index), now)) continue;
    places.push_back(index - from);
    asked.emplace_back(request.key(index));
  }
  const size_t count = asked.size();
  if (requires_) {
    for (size_t nth = 0; nth < count; nth++) asked.push_back(checksumMarkOf(asked[nth]));
  }
  std::vector<int32_t> answers;
  if (count > 0) store().exists(asked, answers);
  results.assign(to - from, 0);
  for (size_t nth = 0; nth < count; nth++) {
    int32_t answer = answers[nth];
    if (requires_ && answer == 1 && answers[count + nth] != 1) {
      answer = isUnanswered(answers[count + nth]) ? answers[count + nth] : layout::EXISTS_UNCHECKED;
    }
    results[places[nth]] = answer;
  }
}

}  // namespace mooncake_kv::mooncake
