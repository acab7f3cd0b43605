// The map of a local pool: key -> value, in shards, evicted by last use.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engines/local/buffers.h"

namespace mooncake_kv::local {

/** A stored value. Its bytes never change once it is in the map; its buffer goes back when the last holder lets go. */
class Value {
 public:
  Value(Buffers& buffers, Buffers::Buffer buffer, std::string key, size_t hash, size_t bytes);
  ~Value();
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  /** What a value costs beside its buffer: this object, its control block, its node in the map, and its key. */
  static size_t overheadBytes(size_t keyBytes);

  const std::string key;
  const size_t hash;
  const size_t bytes;
  bool hasChecksum = false;
  uint32_t checksum = 0;

  uint8_t* data() { return buffer_.data; }
  const uint8_t* data() const { return buffer_.data; }

 private:
  friend class Pool;

  Buffers& buffers_;
  const Buffers::Buffer buffer_;
  // Under the shard's mutex: place in the order of use.
  uint64_t lastUse_ = 0;
  Value* newer_ = nullptr;
  Value* older_ = nullptr;
};

struct PoolCounters {
  std::atomic<uint64_t> evictions{0};
  std::atomic<uint64_t> puts{0};
  std::atomic<uint64_t> putRefusals{0};
  std::atomic<uint64_t> gets{0};
  std::atomic<uint64_t> getMisses{0};
};

/**
 * Any thread. A value is pinned while someone besides the map holds it: eviction and removal by prefix leave it alone; `erase`
 * and `clear` make it invisible, and its memory is free when its holders are done. Free memory stays with the pool, up to its
 * bound, for the values that come next.
 *
 * Time of use is counted in ticks. A batch takes one tick a key and gives the newest to its first key: a prefix is of no use
 * without its first blocks, so they must go last.
 */
class Pool {
 public:
  explicit Pool(uint64_t bytesMax) : buffers_(bytesMax) {}

  uint64_t takeTicks(uint64_t count) { return ticks_.fetch_add(count, std::memory_order_relaxed); }

  /** Finds and marks as used at `tick`; null when absent. */
  std::shared_ptr<const Value> find(std::string_view key, uint64_t tick);
  /** Room for a value that is not in the map yet, evicting as needed; null when nothing more can be evicted. */
  std::shared_ptr<Value> allocate(std::string_view key, size_t bytes);
  /** Makes a written value visible, unless the key came into the map meanwhile: the first writer wins. */
  bool insert(std::shared_ptr<Value> value, uint64_t tick);
  bool erase(std::string_view key);
  /** Erases this very value, not a successor under its key. */
  void eraseValue(const Value& value);
  size_t clear();

  struct Removed {
    size_t count = 0;
    /** Matching keys of values that are being read. */
    size_t kept = 0;
  };
  Removed removeMatching(const std::function<bool(std::string_view)>& matches);
  size_t removePrefix(std::string_view prefix);
  std::vector<std::string> keys(std::string_view prefix, size_t limit) const;
  bool flipBit(std::string_view key, uint64_t byteOffset);

  uint64_t bytesMax() const { return buffers_.bytesMax(); }
  uint64_t bytesUsed() const { return buffers_.bytesUsed(); }
  uint64_t bytesKept() const { return buffers_.bytesKept(); }
  uint64_t keyCount() const;
  PoolCounters& counters() { return counters_; }
  const PoolCounters& counters() const { return counters_; }

 private:
  struct HashedKey {
    std::string_view text;
    size_t hash;
    bool operator==(const HashedKey& other) const { return hash == other.hash && text == other.text; }
  };
  struct TakeHash {
    size_t operator()(const HashedKey& key) const { return key.hash; }
  };
  struct alignas(64) Shard {
    mutable std::mutex mutex;
    /** Keys are views of the values' own. */
    std::unordered_map<HashedKey, std::shared_ptr<Value>, TakeHash> values;
    Value* newest = nullptr;
    Value* oldest = nullptr;
    /** lastUse_ of `oldest`, for the choice of a shard without its mutex; UINT64_MAX when empty. */
    std::atomic<uint64_t> oldestUse{UINT64_MAX};

    void link(Value& value, uint64_t tick);
    void unlink(Value& value);
    /** Unlinks and moves out; the caller lets go of the value after it released the mutex. */
    std::shared_ptr<Value> extract(const HashedKey& key);
  };
  static constexpr size_t SHARDS = 16;

  static HashedKey hashed(std::string_view key) { return {key, std::hash<std::string_view>{}(key)}; }
  // The map itself uses the low bits of the hash.
  Shard& shardOf(size_t hash) { return shards_[(hash >> 56) % SHARDS]; }
  bool evictOne();
  bool evictFrom(Shard& shard);

  // First member: values give their buffers back when the shards end.
  Buffers buffers_;
  std::array<Shard, SHARDS> shards_;
  std::atomic<uint64_t> ticks_{1};
  PoolCounters counters_;
};

/** Opens the pool of that name, shared with everyone in this process who holds it. Throws Error when its size differs. */
std::shared_ptr<Pool> openPool(const std::string& name, uint64_t bytesMax);

}  // namespace mooncake_kv::local
