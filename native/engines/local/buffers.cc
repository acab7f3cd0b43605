#include "engines/local/buffers.h"

#include "core/populate.h"
#include "engines/local/system_memory.h"

namespace mooncake_kv::local {

Buffers::~Buffers() {
  std::vector<Buffer> singles;
  for (const auto& [capacity, list] : keptBySize_) {
    for (uint8_t* data : list) singles.push_back({data, capacity});
  }
  releaseAll(slabs_.popAll(), singles);
}

size_t Buffers::capacityFor(size_t bytes) { return bufferCapacity(bytes); }

Buffers::Buffer Buffers::take(size_t bytes, size_t overhead) {
  const size_t capacity = capacityFor(bytes);
  const uint64_t wanted = uint64_t{capacity} + overhead;
  std::vector<uint8_t*> slabs;
  std::vector<Buffer> singles;
  Buffer buffer;
  {
    std::lock_guard lock(mutex_);
    if (wanted > bytesMax_ - used_) return {};
    used_ += wanted;
    buffer = popKept(capacity);
    // Also when one was kept: the bookkeeping needs its room too.
    makeRoom(slabs, singles);
  }
  // Memory goes back to the system before more is asked of it, and neither is done under the lock.
  releaseAll(slabs, singles);
  if (buffer.data == nullptr) buffer = fresh(capacity);
  if (buffer.data == nullptr) {
    std::lock_guard lock(mutex_);
    used_ -= wanted;
    return {};
  }
  allow(buffer.data, capacity);
  return buffer;
}

void Buffers::give(Buffer buffer, size_t overhead) {
  forbid(buffer.data, buffer.capacity);
  std::lock_guard lock(mutex_);
  used_ -= uint64_t{buffer.capacity} + overhead;
  kept_ += buffer.capacity;
  if (buffer.slab != nullptr) {
    slabs_.pushWarm({buffer.data, buffer.slab});
  } else {
    keptBySize_[buffer.capacity].push_back(buffer.data);
  }
}

Buffers::Buffer Buffers::popKept(size_t capacity) {
  Buffer buffer{nullptr, capacity, nullptr};
  if (comesFromSlab(capacity)) {
    const Slabs::Piece piece = slabs_.popWarm(capacity);
    buffer.data = piece.data;
    buffer.slab = piece.slab;
  } else if (const auto found = keptBySize_.find(capacity); found != keptBySize_.end()) {
    buffer.data = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) keptBySize_.erase(found);
  }
  if (buffer.data != nullptr) kept_ -= capacity;
  return buffer;
}

void Buffers::makeRoom(std::vector<uint8_t*>& slabs, std::vector<Buffer>& singles) {
  while (used_ + kept_ > bytesMax_) {
    size_t warmBytes = 0;
    if (uint8_t* slab = slabs_.popIdle(warmBytes)) {
      slabs.push_back(slab);
      kept_ -= warmBytes;
    } else if (!keptBySize_.empty()) {
      singles.push_back(popKept(keptBySize_.begin()->first));
    } else if (const Slabs::Piece piece = slabs_.popWarmOfAnySize(); piece.data != nullptr) {
      singles.push_back({piece.data, piece.slab->capacity, piece.slab});
      kept_ -= piece.slab->capacity;
    } else {
      return;
    }
  }
}

void Buffers::releaseAll(const std::vector<uint8_t*>& slabs, const std::vector<Buffer>& singles) {
  for (uint8_t* slab : slabs) unmapSlab(slab);
  for (const Buffer& single : singles) {
    if (single.slab != nullptr) {
      makeCold(single);
    } else {
      allow(single.data, single.capacity);
      releaseAlone(single.data, single.capacity);
    }
  }
}

void Buffers::makeCold(Buffer buffer) {
  dropSlabPages(buffer.data, buffer.capacity);
  uint8_t* unused;
  {
    std::lock_guard lock(mutex_);
    unused = slabs_.pushCold({buffer.data, buffer.slab});
  }
  if (unused != nullptr) unmapSlab(unused);
}

Buffers::Buffer Buffers::fresh(size_t capacity) {
  if (comesFromSlab(capacity)) return freshFromSlab(capacity);
  return {allocateAlone(capacity), capacity, nullptr};
}

Buffers::Buffer Buffers::freshFromSlab(size_t capacity) {
  Slabs::Piece piece;
  bool whole = false;
  {
    std::lock_guard lock(mutex_);
    piece = slabs_.popCold(capacity);
    whole = bytesMax_ >= SLABS_MIN * Slabs::SLAB_BYTES && used_ + kept_ + Slabs::SLAB_BYTES - capacity <= bytesMax_;
  }
  if (piece.data == nullptr) return freshSlab(capacity, whole);
  const Buffer buffer{piece.data, capacity, piece.slab};
  if (populate(buffer.data, capacity)) return buffer;
  makeCold(buffer);
  return {};
}

Buffers::Buffer Buffers::freshSlab(size_t capacity, bool whole) {
  uint8_t* data = mapSlab();
  if (data == nullptr) return {};
  if (!(whole ? populateSlab(data, capacity) : populate(data, capacity))) {
    unmapSlab(data);
    return {};
  }
  forbid(data, Slabs::SLAB_BYTES);
  std::vector<Buffer> tooMany;
  Buffer buffer{data, capacity, nullptr};
  {
    std::lock_guard lock(mutex_);
    buffer.slab = slabs_.add(data, capacity);
    // From the last: the first is then the next to be taken.
    for (size_t index = Slabs::buffersPerSlab(capacity); --index > 0;) {
      const Slabs::Piece piece{data + index * capacity, buffer.slab};
      if (!whole) {
        slabs_.pushCold(piece);
      } else if (used_ + kept_ + capacity <= bytesMax_) {
        slabs_.pushWarm(piece);
        kept_ += capacity;
      } else {
        // Others took the room while this slab was being populated.
        tooMany.push_back({piece.data, capacity, piece.slab});
      }
    }
  }
  for (const Buffer& each : tooMany) makeCold(each);
  return buffer;
}

uint64_t Buffers::bytesUsed() const {
  std::lock_guard lock(mutex_);
  return used_;
}

uint64_t Buffers::bytesKept() const {
  std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace mooncake_kv::local
