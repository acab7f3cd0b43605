#include "engines/mooncake/refused_keys.h"

#include <algorithm>

namespace mooncake_kv::mooncake {

bool RefusedKeys::contains(std::string_view key, Clock::time_point now) const {
  if (count() == 0) return false;
  std::lock_guard lock(mutex_);
  const auto found = keys_.find(key);
  return found != keys_.end() && now - found->second.since < (found->second.claimed ? KEPT_CLAIMED : KEPT);
}

bool RefusedKeys::isClaimed(std::string_view key) const {
  if (count() == 0) return false;
  std::lock_guard lock(mutex_);
  const auto found = keys_.find(key);
  return found != keys_.end() && found->second.claimed;
}

void RefusedKeys::add(std::string_view key, bool claimed, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  forgetOld(now);
  if (const auto found = keys_.find(key); found != keys_.end()) erase(found);
  keys_.emplace(key, Refused{.number = next_, .claimed = claimed, .since = now, .tryAt = now, .pause = RETRY_FIRST});
  order_.emplace_back(next_++, key);
  count_.store(keys_.size(), std::memory_order_relaxed);
}

void RefusedKeys::forget(std::string_view key) {
  std::lock_guard lock(mutex_);
  if (const auto found = keys_.find(key); found != keys_.end()) erase(found);
}

std::vector<std::string> RefusedKeys::takeDue(Clock::time_point now, size_t keysMax) {
  std::vector<std::string> due;
  if (count() == 0) return due;
  std::lock_guard lock(mutex_);
  forgetOld(now);
  for (auto& [key, refused] : keys_) {
    if (!refused.claimed || refused.tryAt > now) continue;
    if (due.size() == keysMax) break;
    due.push_back(key);
    refused.tryAt = now + refused.pause;
    refused.pause = std::min(2 * refused.pause, RETRY_LAST);
  }
  return due;
}

bool RefusedKeys::failsForGood(std::string_view key, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  auto found = failing_.find(key);
  if (found == failing_.end()) {
    // What is forgotten here has to fail anew.
    if (failing_.size() >= FAILING_MAX) failing_.clear();
    found = failing_.emplace(key, Failing{.first = now, .last = now, .times = 0}).first;
  }
  Failing& failing = found->second;
  if (now - failing.last > FAILURES_WITHIN) failing = {.first = now, .last = now, .times = 0};
  failing.last = now;
  if (++failing.times < FAILURES || now - failing.first < FAILING_FOR) return false;
  failing_.erase(found);
  return true;
}

void RefusedKeys::forgetOld(Clock::time_point now) {
  while (!order_.empty()) {
    const auto& [number, key] = order_.front();
    const auto found = keys_.find(key);
    if (found != keys_.end() && found->second.number == number) {
      if (keys_.size() < KEYS_MAX && now - found->second.since < KEPT_CLAIMED) break;
      erase(found);
    }
    order_.pop_front();
  }
}

void RefusedKeys::erase(std::unordered_map<std::string, Refused, Text, std::equal_to<>>::iterator found) {
  keys_.erase(found);
  count_.store(keys_.size(), std::memory_order_relaxed);
}

}  // namespace mooncake_kv::mooncake
