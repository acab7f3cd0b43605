#include "engines/local/pool.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace mooncake_kv::local {

namespace {

/** How far a new use may sort itself in among newer ones. Beyond that the order is approximate, which eviction may be. */
constexpr int LINK_STEPS_MAX = 64;
constexpr size_t NODE_BYTES = 96;

}  // namespace

Value::Value(Buffers& buffers, Buffers::Buffer buffer, std::string key, size_t hash, size_t bytes)
    : key(std::move(key)), hash(hash), bytes(bytes), buffers_(buffers), buffer_(buffer) {}

Value::~Value() { buffers_.give(buffer_, overheadBytes(key.size())); }

size_t Value::overheadBytes(size_t keyBytes) { return sizeof(Value) + NODE_BYTES + keyBytes; }

void Pool::Shard::link(Value& value, uint64_t tick) {
  value.lastUse_ = tick;
  Value* newer = nullptr;
  Value* older = newest;
  for (int step = 0; older != nullptr && older->lastUse_ > tick && step < LINK_STEPS_MAX; step++) {
    newer = older;
    older = older->older_;
  }
  value.newer_ = newer;
  value.older_ = older;
  (newer == nullptr ? newest : newer->older_) = &value;
  (older == nullptr ? oldest : older->newer_) = &value;
  oldestUse.store(oldest->lastUse_, std::memory_order_relaxed);
}

void Pool::Shard::unlink(Value& value) {
  (value.newer_ == nullptr ? newest : value.newer_->older_) = value.older_;
  (value.older_ == nullptr ? oldest : value.older_->newer_) = value.newer_;
  value.newer_ = value.older_ = nullptr;
  oldestUse.store(oldest == nullptr ? UINT64_MAX : oldest->lastUse_, std::memory_order_relaxed);
}

std::shared_ptr<Value> Pool::Shard::extract(const HashedKey& key) {
  const auto found = values.find(key);
  if (found == values.end()) return nullptr;
  std::shared_ptr<Value> value = std::move(found->second);
  values.erase(found);
  unlink(*value);
  return value;
}

std::shared_ptr<const Value> Pool::find(std::string_view key, uint64_t tick) {
  const HashedKey wanted = hashed(key);
  Shard& shard = shardOf(wanted.hash);
  std::lock_guard lock(shard.mutex);
  const auto found = shard.values.find(wanted);
  if (found == shard.values.end()) return nullptr;
  Value& value = *found->second;
  if (tick > value.lastUse_) {
    shard.unlink(value);
    shard.link(value, tick);
  }
  return found->second;
}

std::shared_ptr<Value> Pool::allocate(std::string_view key, size_t bytes) {
  const size_t overhead = Value::overheadBytes(key.size());
  if (uint64_t{Buffers::capacityFor(bytes)} + overhead > bytesMax()) return nullptr;
  for (;;) {
    const Buffers::Buffer buffer = buffers_.take(bytes, overhead);
    if (buffer.data != nullptr) {
      return std::make_shared<Value>(buffers_, buffer, std::string(key), hashed(key).hash, bytes);
    }
    if (!evictOne()) return nullptr;
  }
}

bool Pool::insert(std::shared_ptr<Value> value, uint64_t tick) {
  Shard& shard = shardOf(value->hash);
  std::lock_guard lock(shard.mutex);
  Value& inserted = *value;
  const auto [at, isNew] = shard.values.try_emplace(HashedKey{inserted.key, inserted.hash}, value);
  if (isNew) shard.link(inserted, tick);
  return isNew;
}

bool Pool::erase(std::string_view key) {
  const HashedKey wanted = hashed(key);
  Shard& shard = shardOf(wanted.hash);
  std::shared_ptr<Value> erased;
  std::lock_guard lock(shard.mutex);
  erased = shard.extract(wanted);
  return erased != nullptr;
}

void Pool::eraseValue(const Value& value) {
  const HashedKey wanted{value.key, value.hash};
  Shard& shard = shardOf(wanted.hash);
  std::lock_guard lock(shard.mutex);
  const auto found = shard.values.find(wanted);
  // The caller holds the value, so letting go of it here frees nothing under the mutex.
  if (found != shard.values.end() && found->second.get() == &value) shard.extract(wanted);
}

size_t Pool::clear() {
  size_t removed = 0;
  for (Shard& shard : shards_) {
    std::unordered_map<HashedKey, std::shared_ptr<Value>, TakeHash> values;
    std::lock_guard lock(shard.mutex);
    values.swap(shard.values);
    removed += values.size();
    // Values that someone still holds must not keep links to neighbours that go now.
    for (auto& [key, value] : values) value->newer_ = value->older_ = nullptr;
    shard.newest = shard.oldest = nullptr;
    shard.oldestUse.store(UINT64_MAX, std::memory_order_relaxed);
  }
  return removed;
}

bool Pool::evictOne() {
  // The shard whose oldest value is oldest of all, then the others: pinned values may fill the first.
  std::array<std::pair<uint64_t, Shard*>, SHARDS> order;
  for (size_t i = 0; i < SHARDS; i++) order[i] = {shards_[i].oldestUse.load(std::memory_order_relaxed), &shards_[i]};
  std::sort(order.begin(), order.end());
  return std::any_of(order.begin(), order.end(), [&](const auto& choice) { return evictFrom(*choice.second); });
}

bool Pool::evictFrom(Shard& shard) {
  std::shared_ptr<Value> evicted;
  std::lock_guard lock(shard.mutex);
  for (Value* value = shard.oldest; value != nullptr; value = value->newer_) {
    const HashedKey key{value->key, value->hash};
    // Holders take their hold under this mutex, so a count of one (the map's) cannot grow here.
    if (shard.values.find(key)->second.use_count() > 1) continue;
    evicted = shard.extract(key);
    counters_.evictions.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

Pool::Removed Pool::removeMatching(const std::function<bool(std::string_view)>& matches) {
  Removed removed;
  for (Shard& shard : shards_) {
    std::vector<std::shared_ptr<Value>> taken;
    std::lock_guard lock(shard.mutex);
    for (auto at = shard.values.begin(); at != shard.values.end();) {
      const bool wanted = matches(at->first.text);
      if (!wanted || at->second.use_count() > 1) {
        removed.kept += wanted ? 1 : 0;
        ++at;
        continue;
      }
      shard.unlink(*at->second);
      taken.push_back(std::move(at->second));
      at = shard.values.erase(at);
    }
    removed.count += taken.size();
  }
  return removed;
}

size_t Pool::removePrefix(std::string_view prefix) {
  return removeMatching([prefix](std::string_view key) { return key.starts_with(prefix); }).count;
}

std::vector<std::string> Pool::keys(std::string_view prefix, size_t limit) const {
  std::vector<std::string> found;
  for (const Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    for (const auto& [key, value] : shard.values) {
      if (found.size() == limit) return found;
      if (key.text.starts_with(prefix)) found.emplace_back(key.text);
    }
  }
  return found;
}

bool Pool::flipBit(std::string_view key, uint64_t byteOffset) {
  const HashedKey wanted = hashed(key);
  Shard& shard = shardOf(wanted.hash);
  std::lock_guard lock(shard.mutex);
  const auto found = shard.values.find(wanted);
  if (found == shard.values.end()) return false;
  Value& value = *found->second;
  if (byteOffset >= value.bytes) {
    throw invalidValue("byteOffset", static_cast<int64_t>(byteOffset), "the value has " + std::to_string(value.bytes) + " bytes",
                       "Pass an offset inside the value.");
  }
  std::atomic_ref<uint8_t>(value.data()[byteOffset]).fetch_xor(1);
  return true;
}

uint64_t Pool::keyCount() const {
  uint64_t count = 0;
  for (const Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    count += shard.values.size();
  }
  return count;
}

std::shared_ptr<Pool> openPool(const std::string& name, uint64_t bytesMax) {
  // Never destroyed: threads may still run while the process exits.
  static auto* mutex = new std::mutex;
  static auto* pools = new std::unordered_map<std::string, std::weak_ptr<Pool>>;
  std::lock_guard lock(*mutex);
  std::erase_if(*pools, [](const auto& item) { return item.second.expired(); });
  std::weak_ptr<Pool>& known = (*pools)[name];
  std::shared_ptr<Pool> pool = known.lock();
  if (pool == nullptr) {
    pool = std::make_shared<Pool>(bytesMax);
    known = pool;
  } else if (pool->bytesMax() != bytesMax) {
    throw invalidValue("bytesMax", static_cast<int64_t>(bytesMax),
                       "the pool \"" + name + "\" is open in this process with " + std::to_string(pool->bytesMax()) + " bytes",
                       "Give the same size, or another poolName.");
  }
  return pool;
}

}  // namespace mooncake_kv::local
