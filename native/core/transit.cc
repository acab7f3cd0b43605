#include "core/transit.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace mooncake_kv {

Transit::Lease Transit::take(uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    const auto fits = std::find_if(free_.begin(), free_.end(), [&](const auto& memory) { return memory->bytes() >= bytes; });
    if (fits != free_.end()) {
      std::shared_ptr<Memory> memory = std::move(*fits);
      free_.erase(fits);
      return {*this, std::move(memory)};
    }
    if (made_ == buffersMax_) {
      if (free_.empty()) return {};
      // One that is too small makes room. The connection that knows it keeps it to its own end.
      free_.pop_back();
      made_--;
    }
    // Its place in `free_` is made here, so that giving it back cannot fail.
    free_.reserve(++made_);
  }
  try {
    return {*this, Memory::createMemfd(std::max(bytes, bufferBytes_))};
  } catch (const Error&) {
    std::lock_guard lock(mutex_);
    made_--;
    return {};
  }
}

void Transit::giveBack(std::shared_ptr<Memory> memory) {
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(memory));
}

uint32_t moveInto(const Memory& buffer, const PoolRequest& request, uint32_t from, PoolRequest& moved) {
  moved.begin(request.operation());
  uint32_t to = from;
  for (uint64_t offset = 0; to < request.count() && request.valueBytes(to) <= buffer.bytes() - offset; to++) {
    const std::string_view key = request.key(to);
    std::memcpy(moved.addKey(key.size()), key.data(), key.size());
    moved.addSegment(buffer, offset, request.valueBytes(to));
    offset += request.valueBytes(to);
  }
  return to;
}

}  // namespace mooncake_kv
