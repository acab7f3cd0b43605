#pragma once

#include <cstdint>
#include <ctime>

namespace mooncake_kv {

inline uint64_t nanoseconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}
inline uint64_t monotonicNanoseconds() { return nanoseconds(CLOCK_MONOTONIC); }

}  // namespace mooncake_kv
