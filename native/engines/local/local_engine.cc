#include "engines/local/local_engine.h"

#include <algorithm>
#include <cstring>

#include "core/codes.h"
#include "core/control_call.h"
#include "core/copy.h"
#include "core/crc32c.h"
#include "core/key_names.h"
#include "core/layout.h"

namespace mooncake_kv::local {

namespace {

void copyThroughCache(uint8_t* to, const uint8_t* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace

int32_t LocalEngine::run(PoolRequest& request) {
  if (request.operation() == layout::OPERATION_REMOVE_ALL) {
    pool_->clear();
    return code::OK;
  }
  const uint32_t count = request.count();
  const uint64_t firstTick = pool_->takeTicks(count);
  const auto runKey = [&](uint32_t index) { request.setResult(index, this->runKey(request, index, firstTick + (count - 1 - index))); };
  if (request.operation() == layout::OPERATION_PUT) {
    // The first keys first: when room runs out, what is stored is a prefix.
    for (uint32_t index = 0; index < count; index++) runKey(index);
  } else {
    // The newest tick last, so that each use goes straight to the head of the order.
    for (uint32_t index = count; index-- > 0;) runKey(index);
  }
  return code::OK;
}

int32_t LocalEngine::runKey(PoolRequest& request, uint32_t index, uint64_t tick) {
  switch (request.operation()) {
    case layout::OPERATION_EXISTS:
      return exists(request, index, tick);
    case layout::OPERATION_REMOVE:
      return pool_->erase(request.key(index)) ? code::OK : code::OBJECT_NOT_FOUND;
    case layout::OPERATION_PUT:
      return put(request, index, tick);
    case layout::OPERATION_GET:
      return get(request, index, tick);
    default:
      return code::ENGINE_ERROR;
  }
}

int32_t LocalEngine::exists(PoolRequest& request, uint32_t index, uint64_t tick) {
  if (pool_->find(request.key(index), tick) == nullptr) return 0;
  request.setTier(index, layout::TIER_MEMORY);
  return 1;
}

int32_t LocalEngine::put(const PoolRequest& request, uint32_t index, uint64_t tick) {
  const std::string_view key = request.key(index);
  PoolCounters& counters = pool_->counters();
  counters.puts.fetch_add(1, std::memory_order_relaxed);
  if (const auto present = pool_->find(key, tick)) return static_cast<int32_t>(present->bytes);

  const size_t bytes = request.valueBytes(index);
  std::shared_ptr<Value> value = pool_->allocate(key, bytes);
  if (value == nullptr) {
    counters.putRefusals.fetch_add(1, std::memory_order_relaxed);
    return code::NO_AVAILABLE_HANDLE;
  }
  uint8_t* to = value->data();
  for (const PoolSegment& segment : request.segments(index)) {
    // A checksum reads the value once more, and then wants it in the cache.
    (verifyChecksums_ ? copyThroughCache : copyPastCache)(to, segment.address(), segment.bytes);
    to += segment.bytes;
  }
  finish(*value);
  pool_->insert(std::move(value), tick);
  return static_cast<int32_t>(bytes);
}

void LocalEngine::finish(Value& value) const {
  if (!verifyChecksums_) return;
  value.checksum = valueChecksum(value.data(), value.bytes);
  value.hasChecksum = true;
}

bool LocalEngine::isIntact(const Value& value) const {
  if (!verifyChecksums_ || !value.hasChecksum || valueChecksum(value.data(), value.bytes) == value.checksum) return true;
  pool_->eraseValue(value);
  return false;
}

int32_t LocalEngine::get(PoolRequest& request, uint32_t index, uint64_t tick) {
  PoolCounters& counters = pool_->counters();
  counters.gets.fetch_add(1, std::memory_order_relaxed);
  const std::shared_ptr<const Value> value = pool_->find(request.key(index), tick);
  if (value == nullptr) {
    counters.getMisses.fetch_add(1, std::memory_order_relaxed);
    return code::OBJECT_NOT_FOUND;
  }
  const size_t bytes = request.valueBytes(index);
  if (bytes != value->bytes) {
    request.setWrongBytes(index, value->bytes);
    return bytes < value->bytes ? code::BUFFER_SMALLER : code::BUFFER_LARGER;
  }
  // Before the copy: wrong bytes never reach a KV block, and the copy then reads from the cache.
  if (!isIntact(*value)) return code::CHECKSUM_MISMATCH;
  const uint8_t* from = value->data();
  for (const PoolSegment& segment : request.segments(index)) {
    copyPastCache(segment.address(), from, segment.bytes);
    from += segment.bytes;
  }
  request.setTier(index, layout::TIER_MEMORY | (verifyChecksums_ && value->hasChecksum ? layout::CHECK_VERIFIED : 0));
  return static_cast<int32_t>(bytes);
}

ControlReply LocalEngine::control(const ControlRequest& request) {
  switch (request.operation) {
    case ControlOperation::getValue:
      return getValue(request.key);
    case ControlOperation::putValue:
      return putValue(request.key, request.value);
    case ControlOperation::removeKey:
      return {.status = pool_->erase(request.key) ? code::OK : code::OBJECT_NOT_FOUND};
    case ControlOperation::removePrefix:
      return remove([&](std::string_view key) { return key.starts_with(request.key); });
    case ControlOperation::removeCachePrefix:
      return remove([&](std::string_view key) { return hasCachePrefix(key, request.key); });
    case ControlOperation::removeAll:
      return {.count = static_cast<int64_t>(pool_->clear())};
    case ControlOperation::keys:
      return {.keys = pool_->keys(request.key, request.limit)};
    case ControlOperation::health:
      return {};
  }
  return {.status = code::ENGINE_ERROR, .text = "the local engine knows no such call"};
}

ControlReply LocalEngine::remove(const std::function<bool(std::string_view)>& matches) {
  const Pool::Removed removed = pool_->removeMatching(matches);
  return {.count = static_cast<int64_t>(removed.count), .kept = static_cast<int64_t>(removed.kept)};
}

ControlReply LocalEngine::getValue(const std::string& key) {
  const std::shared_ptr<const Value> value = pool_->find(key, pool_->takeTicks(1));
  if (value == nullptr) return {.status = code::OBJECT_NOT_FOUND};
  if (value->bytes > CONTROL_VALUE_BYTES_MAX) {
    return {.status = code::VALUE_TOO_LARGE, .count = static_cast<int64_t>(value->bytes), .text = "the value has " + std::to_string(value->bytes) + " bytes"};
  }
  if (!isIntact(*value)) return {.status = code::CHECKSUM_MISMATCH};
  return {.value = std::vector<uint8_t>(value->data(), value->data() + value->bytes)};
}

ControlReply LocalEngine::putValue(const std::string& key, const std::vector<uint8_t>& bytes) {
  const uint64_t tick = pool_->takeTicks(1);
  if (pool_->find(key, tick) != nullptr) return {};
  std::shared_ptr<Value> value = pool_->allocate(key, bytes.size());
  if (value == nullptr) return {.status = code::NO_AVAILABLE_HANDLE};
  std::copy(bytes.begin(), bytes.end(), value->data());
  finish(*value);
  return {.count = pool_->insert(std::move(value), tick) ? 1 : 0};
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
