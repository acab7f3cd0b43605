// Where the values of a call lie, asked before and after its transfers: what was removed under a reader is not what it read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mooncake_kv::mooncake {

/** One complete copy of a value. */
struct Replica {
  /** TIER_MEMORY, or TIER_DISK; TIER_UNKNOWN for a kind that this code does not know. */
  int32_t tier;
  /** Of memory its owner and address, of a shared disk its file. The wheel tells nothing of a file on an owner's own disk. */
  std::string place;
  uint64_t address = 0;
  uint64_t bytes = 0;

  bool operator==(const Replica&) const = default;
};

/** The replicas of each key of a call; used again by the next. */
class ReplicaLists {
 public:
  void clear() {
    all_.clear();
    ends_.clear();
  }
  void add(Replica replica) { all_.push_back(std::move(replica)); }
  /** The replicas of the next key are complete. */
  void endKey() { ends_.push_back(all_.size()); }

  size_t keys() const { return ends_.size(); }
  /** In the order in which a get prefers them; none: the key is not there. */
  std::span<const Replica> of(size_t key) const {
    const size_t start = key == 0 ? 0 : ends_[key - 1];
    return std::span(all_).subspan(start, ends_[key] - start);
  }
  bool empty() const { return all_.empty(); }

 private:
  std::vector<Replica> all_;
  std::vector<size_t> ends_;
};

/**
 * Whether bytes that were read between the two answers are those of the value. Memory that no replica of the key has any more may
 * have been given to another value while it was read: each earlier memory replica has to be there, since which one a get took
 * is not told. A value that lay on disk alone needs one of its earlier replicas; that it was brought into memory meanwhile is no loss.
 */
bool remains(std::span<const Replica> before, std::span<const Replica> after);

}  // namespace mooncake_kv::mooncake
