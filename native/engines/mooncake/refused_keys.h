// Keys whose values are not to be used: remembered as misses until they are removed, or for a while.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mooncake_kv::mooncake {

/**
 * Bounded: of more than KEYS_MAX keys the oldest is forgotten, and any after a while; its value is then met, and refused, again. One
 * member removes a value, the one with the claim, so that nobody removes what another has put in its place. Outlives a connection.
 * Any thread.
 */
class RefusedKeys {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t KEYS_MAX = 65'536;
  /** With the claim, as long as that is nobody else's; without, until whoever has it may have removed the value. */
  static constexpr std::chrono::seconds KEPT_CLAIMED{120}, KEPT{30};
  /** Between two tries to remove a value that a reader has leased; twice as long each time, up to the last. */
  static constexpr std::chrono::milliseconds RETRY_FIRST{1'000}, RETRY_LAST{16'000};

  /** Costs next to nothing while there is none. */
  bool contains(std::string_view key, Clock::time_point now) const;
  void add(std::string_view key, bool claimed, Clock::time_point now);
  /** It is this member that removes the value. */
  bool isClaimed(std::string_view key) const;
  /** The value is gone, or another took its place. */
  void forget(std::string_view key);
  /** At most `keysMax` claimed ones whose removal is to be tried now; they are due again after a pause. */
  std::vector<std::string> takeDue(Clock::time_point now, size_t keysMax);
  size_t count() const { return count_.load(std::memory_order_relaxed); }

  /**
   * A value that did not arrive although its owner served others of the same call. True when it has not for so often and so long
   * that it never will: an owner that is slow, or just gone, is not meant.
   */
  bool failsForGood(std::string_view key, Clock::time_point now);

 private:
  struct Text {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Refused {
    uint64_t number;
    bool claimed;
    Clock::time_point since, tryAt;
    std::chrono::milliseconds pause;
  };
  struct Failing {
    Clock::time_point first, last;
    uint32_t times;
  };
  static constexpr size_t FAILING_MAX = 4'096;
  static constexpr uint32_t FAILURES = 3;
  static constexpr std::chrono::seconds FAILING_FOR{10};
  static constexpr std::chrono::minutes FAILURES_WITHIN{10};

  void forgetOld(Clock::time_point now);
  void erase(std::unordered_map<std::string, Refused, Text, std::equal_to<>>::iterator found);

  mutable std::mutex mutex_;
  std::atomic<size_t> count_{0};
  uint64_t next_ = 0;
  std::unordered_map<std::string, Refused, Text, std::equal_to<>> keys_;
  /** Oldest first; the number tells an entry from a later one of the same key. */
  std::deque<std::pair<uint64_t, std::string>> order_;
  std::unordered_map<std::string, Failing, Text, std::equal_to<>> failing_;
};

}  // namespace mooncake_kv::mooncake
