#include "engines/local/local_engine.h"

#include <cstring>

#include "core/codes.h"
#include "core/copy.h"
#include "core/crc32c.h"
#include "core/layout.h"

namespace mooncake_kv::local {

namespace {

void copyThroughCache(uint8_t* to, const uint8_t* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace

int32_t LocalEngine::run(Batch& batch, uint32_t from, uint32_t to) {
  const int32_t operation = batch.operation();
  if (operation == layout::OPERATION_REMOVE_ALL) {
    pool_->clear();
    return code::OK;
  }
  static thread_local std::string key;
  const uint64_t firstTick = pool_->takeTicks(to - from);
  const auto tick = [&](uint32_t index) { return firstTick + (to - 1 - index); };
  if (operation == layout::OPERATION_PUT) {
    // The first keys first: when room runs out, what is stored is a prefix.
    for (uint32_t index = from; index < to; index++) batch.setResult(index, runKey(batch, index, key, tick(index)));
  } else {
    // The newest tick last, so that each use goes straight to the head of the order.
    for (uint32_t index = to; index-- > from;) batch.setResult(index, runKey(batch, index, key, tick(index)));
  }
  return code::OK;
}

int32_t LocalEngine::runKey(Batch& batch, uint32_t index, std::string& key, uint64_t tick) {
  batch.setTier(index, layout::TIER_UNKNOWN);
  if (!batch.key(index, key)) return code::BAD_ENTRY;
  switch (batch.operation()) {
    case layout::OPERATION_EXISTS:
      return exists(batch, index, key, tick);
    case layout::OPERATION_REMOVE:
      return pool_->erase(key) ? code::OK : code::OBJECT_NOT_FOUND;
    case layout::OPERATION_PUT:
      return batch.hasBlock(index) ? put(batch, index, key, tick) : code::BAD_ENTRY;
    case layout::OPERATION_GET:
      return batch.hasBlock(index) ? get(batch, index, key, tick) : code::BAD_ENTRY;
    default:
      return code::ENGINE_ERROR;
  }
}

int32_t LocalEngine::exists(Batch& batch, uint32_t index, std::string_view key, uint64_t tick) {
  if (pool_->find(key, tick) == nullptr) return 0;
  batch.setTier(index, layout::TIER_MEMORY);
  return 1;
}

int32_t LocalEngine::put(const Batch& batch, uint32_t index, std::string_view key, uint64_t tick) {
  PoolCounters& counters = pool_->counters();
  counters.puts.fetch_add(1, std::memory_order_relaxed);
  if (const auto present = pool_->find(key, tick)) return static_cast<int32_t>(present->bytes);

  const int32_t group = batch.group(index);
  const size_t bytes = batch.keySpace()->valueBytes(group);
  std::shared_ptr<Value> value = pool_->allocate(key, bytes);
  if (value == nullptr) {
    counters.putRefusals.fetch_add(1, std::memory_order_relaxed);
    return code::NO_AVAILABLE_HANDLE;
  }
  uint8_t* to = value->data();
  for (const SegmentRule& segment : batch.keySpace()->segments(group)) {
    // A checksum reads the value once more, and then wants it in the cache.
    (verifyChecksums_ ? copyThroughCache : copyPastCache)(to, segment.at(batch.block(index)), segment.bytes);
    to += segment.bytes;
  }
  if (verifyChecksums_) {
    value->checksum = valueChecksum(value->data(), bytes);
    value->hasChecksum = true;
  }
  pool_->insert(std::move(value), tick);
  return static_cast<int32_t>(bytes);
}

int32_t LocalEngine::get(Batch& batch, uint32_t index, std::string_view key, uint64_t tick) {
  PoolCounters& counters = pool_->counters();
  counters.gets.fetch_add(1, std::memory_order_relaxed);
  const std::shared_ptr<const Value> value = pool_->find(key, tick);
  if (value == nullptr) {
    counters.getMisses.fetch_add(1, std::memory_order_relaxed);
    return code::OBJECT_NOT_FOUND;
  }
  const int32_t group = batch.group(index);
  const size_t bytes = batch.keySpace()->valueBytes(group);
  if (bytes != value->bytes) return bytes < value->bytes ? code::BUFFER_SMALLER : code::BUFFER_LARGER;
  // Before the copy: wrong bytes never reach a KV block, and the copy then reads from the cache.
  if (verifyChecksums_ && value->hasChecksum && valueChecksum(value->data(), bytes) != value->checksum) {
    pool_->eraseValue(*value);
    return code::CHECKSUM_MISMATCH;
  }
  const uint8_t* from = value->data();
  for (const SegmentRule& segment : batch.keySpace()->segments(group)) {
    copyPastCache(segment.at(batch.block(index)), from, segment.bytes);
    from += segment.bytes;
  }
  batch.setTier(index, layout::TIER_MEMORY);
  return static_cast<int32_t>(bytes);
}

EngineStatistics LocalEngine::statistics() const {
  const PoolCounters& counters = pool_->counters();
  const auto read = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  return {.bytesMax = pool_->bytesMax(),
          .bytesUsed = pool_->bytesUsed(),
          .keys = pool_->keyCount(),
          .evictions = read(counters.evictions),
          .puts = read(counters.puts),
          .putRefusals = read(counters.putRefusals),
          .gets = read(counters.gets),
          .getMisses = read(counters.getMisses)};
}

}  // namespace mooncake_kv::local
