// A batch: a number of keys with one operation, seen through its slot in a channel.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/key_space.h"
#include "core/layout.h"

namespace mooncake_kv {

class Channel;

/**
 * Entries, results and tiers lie in the channel's shared memory and belong to the engine from submit to completion. An engine
 * reads entries and writes one result (and for `get` a tier) for each key of its part; parts of one batch may run on several
 * threads at the same time.
 */
class Batch {
 public:
  int32_t operation() const { return operation_; }
  uint32_t count() const { return count_; }
  /** Null for OPERATION_REMOVE_ALL with count 0. */
  const KeySpace* keySpace() const { return keySpace_.get(); }

  int32_t group(uint32_t index) const { return entry(index)[layout::ENTRY_GROUP]; }
  int32_t block(uint32_t index) const { return entry(index)[layout::ENTRY_BLOCK]; }
  /** False: the entry names no key of the key space. */
  bool key(uint32_t index, std::string& text) const {
    return keySpace_->key(entry(index)[layout::ENTRY_PREFIX], entry(index)[layout::ENTRY_HASH_ROW], text);
  }
  /** Whether the entry names KV memory, which `put` and `get` need. */
  bool hasBlock(uint32_t index) const { return keySpace_->hasBlock(group(index), block(index)); }

  void setResult(uint32_t index, int32_t result) { results_[index] = result; }
  void setTier(uint32_t index, int32_t tier) { tiers_[index] = tier; }

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
  std::atomic<uint32_t> partsLeft_{0};
  std::atomic<int32_t> status_{0};
  std::atomic<bool> inFlight_{false};
};

}  // namespace mooncake_kv
