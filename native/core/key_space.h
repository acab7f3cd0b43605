// How the numbers of a batch entry become a key and addresses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/pool_request.h"
#include "core/registry.h"

namespace mooncake_kv {

/** One segment of every block of a group: block b's bytes are [start + b * stride, + bytes). */
struct SegmentRule {
  std::shared_ptr<Memory> region;
  uint64_t offset = 0;
  uint64_t strideBytes = 0;
  uint64_t bytes = 0;

  uint8_t* at(int32_t block) const { return region->data() + offset + static_cast<uint64_t>(block) * strideBytes; }
};

/** Immutable once made; any thread. Touch keys and segments only between `enter` and `leave`. */
class KeySpace {
 public:
  struct Options {
    std::shared_ptr<Memory> hashes;
    int32_t hashBytes = 32;
    std::vector<std::string> prefixes;
    std::vector<std::vector<SegmentRule>> groups;
    int32_t blockCount = 0;
  };

  /** Throws Error when a segment of any block would lie outside its region, or a value would not fit an int32 result. */
  explicit KeySpace(Options options);

  /** Enters all memory that keys and segments lie in; false (and nothing entered) when an owner is ending. */
  bool enter() const;
  void leave() const;

  /** Key text: prefix, "@", hex of the digest. False: prefix or hash row out of range. */
  bool key(int32_t prefix, int32_t hashRow, std::string& text) const;
  /** Adds that key to a request; false (and nothing added) likewise. */
  bool addKey(int32_t prefix, int32_t hashRow, PoolRequest& request) const;
  /** Adds a block's segments to the key that was added last; `hasBlock` must hold. */
  void addSegments(int32_t group, int32_t block, PoolRequest& request) const;
  bool hasBlock(int32_t group, int32_t block) const {
    return group >= 0 && static_cast<size_t>(group) < groups_.size() && block >= 0 && block < blockCount_;
  }
  /** Segments of a group in value order: a value is their plain concatenation. */
  std::span<const SegmentRule> segments(int32_t group) const { return groups_[static_cast<size_t>(group)]; }
  uint64_t valueBytes(int32_t group) const { return valueBytes_[static_cast<size_t>(group)]; }
  /** Of the group with the largest values. */
  uint64_t valueBytesMax() const { return valueBytes_.empty() ? 0 : *std::max_element(valueBytes_.begin(), valueBytes_.end()); }
  /** Blocks lie in memory of a JavaScript thread, or some of them. */
  bool borrowsBlocks() const { return borrowsBlocks_; }
  /** Memory that blocks lie in, each once. */
  std::span<const std::shared_ptr<Memory>> blockMemories() const { return std::span(memories_).subspan(1); }

 private:
  bool hasKey(int32_t prefix, int32_t hashRow) const {
    return prefix >= 0 && static_cast<size_t>(prefix) < prefixes_.size() && hashRow >= 0 && hashRow < hashRows_;
  }
  size_t textBytes(int32_t prefix) const { return prefixes_[static_cast<size_t>(prefix)].size() + 2 * static_cast<size_t>(hashBytes_); }
  void writeText(int32_t prefix, int32_t hashRow, char* to) const;

  const std::shared_ptr<Memory> hashes_;
  const int32_t hashBytes_;
  const int64_t hashRows_;
  const int32_t blockCount_;
  std::vector<std::string> prefixes_;
  std::vector<std::vector<SegmentRule>> groups_;
  std::vector<uint64_t> valueBytes_;
  bool borrowsBlocks_ = false;
  /** The hashes', then those that blocks lie in, each of these once. */
  std::vector<std::shared_ptr<Memory>> memories_;
};

/** All key spaces of this process. */
Registry<KeySpace>& keySpaces();

}  // namespace mooncake_kv
