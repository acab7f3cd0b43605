#include "core/processors.h"

namespace mooncake_kv {

HalfOfProcessors::HalfOfProcessors(Half half, bool applies) {
  CPU_ZERO(&before_);
  if (!applies) return;
  // More than 1,024 processors do not fit and are left alone.
  if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  const int first = CPU_COUNT(&before_) / 2;
  if (first == 0) return;
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (int processor = 0, seen = 0; processor < CPU_SETSIZE; processor++) {
    if (!CPU_ISSET(processor, &before_)) continue;
    const bool inFirst = seen++ < first;
    if (inFirst == (half == Half::first)) CPU_SET(processor, &chosen);
  }
  changed_ = sched_setaffinity(0, sizeof(chosen), &chosen) == 0;
}

HalfOfProcessors::~HalfOfProcessors() {
  if (changed_) sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace mooncake_kv
