// Which processors threads run on.
#pragma once

#include <sched.h>

namespace mooncake_kv {

/**
 * While it lives, this thread and the threads that it starts keep to one half of the processors that the process may use; with a
 * single processor nothing changes. Any thread; one at a time on a thread.
 *
 * The wheel's calls hand every value to its transport thread and then spin until all are done: when both share a processor the
 * transport thread interrupts the caller for each value, and on virtual machines, whose scheduler takes sleeping processors for
 * busy ones, they stay together for whole batches (a batch of 32 small values then takes three times as long).
 */
class HalfOfProcessors {
 public:
  enum class Half { first, second };
  /** `applies` false: nothing changes. */
  HalfOfProcessors(Half half, bool applies);
  ~HalfOfProcessors();
  HalfOfProcessors(const HalfOfProcessors&) = delete;
  HalfOfProcessors& operator=(const HalfOfProcessors&) = delete;

 private:
  cpu_set_t before_;
  bool changed_ = false;
};

}  // namespace mooncake_kv
