// A batch: a number of keys with one operation, seen through its slot in a channel.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/io_threads.h"
#include "core/key_space.h"
#include "core/layout.h"

namespace mooncake_kv {

class Channel;

/**
 * Entries, results and tiers lie in the channel's shared memory and belong to the native side from submit to completion. Parts
 * of one batch may run on several threads at the same time. All but the channel itself sees a PoolRequest instead.
 */
class Batch {
 private:
  friend class Channel;

  const int32_t* entry(uint32_t index) const { return entries_ + uint64_t{index} * layout::ENTRY_WORDS; }

  // Fixed for the slot.
  int32_t* header_ = nullptr;
  int32_t* entries_ = nullptr;
  int32_t* results_ = nullptr;
  int32_t* tiers_ = nullptr;
  uint32_t slot_ = 0;

  // Per submit.
  int32_t operation_ = 0;
  uint32_t count_ = 0;
  int32_t tag_ = 0;
  std::shared_ptr<const KeySpace> keySpace_;
  /** Keeps the channel, its engine and its memory while the engine has the batch. */
  std::shared_ptr<Channel> channel_;
  uint64_t submittedNanoseconds_ = 0;
  std::atomic<uint64_t> startedNanoseconds_{0};
  /** One a part. */
  std::vector<IoThreads::Task> tasks_;
  std::atomic<uint32_t> partsLeft_{0};
  std::atomic<int32_t> status_{0};
  std::atomic<bool> inFlight_{false};
};

}  // namespace mooncake_kv
