// What an engine is asked: keys with one operation, and for put and get the memory that holds each value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/codes.h"
#include "core/layout.h"
#include "core/memory.h"

namespace mooncake_kv {

/** A piece of a value in KV memory. Who makes the request keeps the memory alive until `run` has returned. */
struct PoolSegment {
  const Memory* memory;
  uint64_t offset;
  uint64_t bytes;

  uint8_t* address() const { return memory->data() + offset; }
};

/**
 * One request, filled by who asks and then worked off by one thread; its buffers are used again by the next `begin`. A value is
 * the plain concatenation of its segments. Results and tiers are rows of the request's own, so that an engine whose call
 * returns late or never writes into nobody else's memory.
 */
class PoolRequest {
 public:
  /** Forgets the last request. `operation`: one of layout::OPERATION_. REMOVE_ALL has no keys. */
  void begin(int32_t operation) {
    operation_ = operation;
    texts_.clear();
    textEnds_.clear();
    segments_.clear();
    segmentEnds_.clear();
    valueBytes_.clear();
    results_.clear();
    tiers_.clear();
  }
  /** Adds a key; returns where its text has to be written. Valid until the next call. */
  char* addKey(size_t textBytes) {
    const size_t start = texts_.size();
    texts_.resize(start + textBytes);
    textEnds_.push_back(texts_.size());
    segmentEnds_.push_back(segments_.size());
    valueBytes_.push_back(0);
    results_.push_back(code::ENGINE_ERROR);
    tiers_.push_back(layout::TIER_UNKNOWN);
    return texts_.data() + start;
  }
  /** Adds a segment to the value of the key that was added last. */
  void addSegment(const Memory& memory, uint64_t offset, uint64_t bytes) {
    segments_.push_back({&memory, offset, bytes});
    segmentEnds_.back() = segments_.size();
    valueBytes_.back() += bytes;
  }

  int32_t operation() const { return operation_; }
  uint32_t count() const { return static_cast<uint32_t>(textEnds_.size()); }
  std::string_view key(uint32_t index) const {
    const size_t start = index == 0 ? 0 : textEnds_[index - 1];
    return std::string_view(texts_).substr(start, textEnds_[index] - start);
  }
  /** Empty unless the operation is put or get. */
  std::span<const PoolSegment> segments(uint32_t index) const {
    const size_t start = index == 0 ? 0 : segmentEnds_[index - 1];
    return std::span(segments_).subspan(start, segmentEnds_[index] - start);
  }
  uint64_t valueBytes(uint32_t index) const { return valueBytes_[index]; }

  /** As src/store/engine.ts says: exists 1 or 0, put and get bytes moved, remove OK, or a code below 0. At first ENGINE_ERROR. */
  void setResult(uint32_t index, int32_t result) { results_[index] = result; }
  void setResults(int32_t result) { results_.assign(results_.size(), result); }
  /** Where a get found the value, with CHECK_VERIFIED when it fits its checksum. At first TIER_UNKNOWN. */
  void setTier(uint32_t index, int32_t tier) { tiers_[index] = tier; }
  /** Of a value that has another size than the block: its bytes, in the place of the tier. */
  void setWrongBytes(uint32_t index, uint64_t bytes) {
    tiers_[index] = static_cast<int32_t>(std::min<uint64_t>(bytes, std::numeric_limits<int32_t>::max()));
  }
  int32_t result(uint32_t index) const { return results_[index]; }
  int32_t tier(uint32_t index) const { return tiers_[index]; }

 private:
  int32_t operation_ = 0;
  std::string texts_;
  std::vector<size_t> textEnds_;
  std::vector<PoolSegment> segments_;
  std::vector<size_t> segmentEnds_;
  std::vector<uint64_t> valueBytes_;
  std::vector<int32_t> results_;
  std::vector<int32_t> tiers_;
};

inline bool movesBytes(int32_t operation) { return operation == layout::OPERATION_PUT || operation == layout::OPERATION_GET; }

}  // namespace mooncake_kv
