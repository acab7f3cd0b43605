#include "engines/local/system_memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "core/populate.h"
#include "engines/local/slabs.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace mooncake_kv::local {

namespace {

constexpr size_t LINE_BYTES = 64;

size_t roundUp(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

uint8_t* map(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<uint8_t*>(data);
}

bool hasWholePages(size_t capacity) { return capacity % PAGE_BYTES == 0; }

}  // namespace

size_t bufferCapacity(size_t bytes) {
  if (bytes == 0) return LINE_BYTES;
  const size_t pages = roundUp(bytes, PAGE_BYTES);
  return pages - bytes <= pages / 8 ? pages : roundUp(bytes, LINE_BYTES);
}

bool comesFromSlab(size_t capacity) { return hasWholePages(capacity) && capacity < Slabs::CAPACITY_END; }

uint8_t* allocateAlone(size_t capacity) {
  if (!hasWholePages(capacity)) return static_cast<uint8_t*>(std::aligned_alloc(LINE_BYTES, capacity));
  uint8_t* data = map(capacity);
  if (data == nullptr) return nullptr;
  // Advice must come before the pages do.
  if (capacity >= HUGE_PAGE_BYTES) madvise(data, capacity, MADV_HUGEPAGE);
  if (populate(data, capacity)) return data;
  munmap(data, capacity);
  return nullptr;
}

void releaseAlone(uint8_t* data, size_t capacity) {
  if (hasWholePages(capacity)) {
    munmap(data, capacity);
  } else {
    std::free(data);
  }
}

uint8_t* mapSlab() {
  uint8_t* data = map(2 * Slabs::SLAB_BYTES);
  if (data == nullptr) return nullptr;
  const size_t before = (Slabs::SLAB_BYTES - reinterpret_cast<uintptr_t>(data) % Slabs::SLAB_BYTES) % Slabs::SLAB_BYTES;
  if (before > 0) munmap(data, before);
  munmap(data + before + Slabs::SLAB_BYTES, Slabs::SLAB_BYTES - before);
  return data + before;
}

void unmapSlab(uint8_t* data) {
  allow(data, Slabs::SLAB_BYTES);
  munmap(data, Slabs::SLAB_BYTES);
}

bool populateSlab(uint8_t* data, size_t capacity) {
  const size_t bytes = Slabs::buffersPerSlab(capacity) * capacity;
  // A huge page that the buffers do not fill would be more memory than they are counted for.
  if (bytes == Slabs::SLAB_BYTES) madvise(data, bytes, MADV_HUGEPAGE);
  return populate(data, bytes);
}

void dropSlabPages(uint8_t* data, size_t bytes) {
  // Else the system may fill the hole again when it makes huge pages. The whole slab, since each range with advice of its own is one
  // more mapping, of which a process may have some ten thousands.
  madvise(data - reinterpret_cast<uintptr_t>(data) % Slabs::SLAB_BYTES, Slabs::SLAB_BYTES, MADV_NOHUGEPAGE);
  madvise(data, bytes, MADV_DONTNEED);
}

#if defined(__SANITIZE_ADDRESS__)
void forbid(uint8_t* data, size_t bytes) { ASAN_POISON_MEMORY_REGION(data, bytes); }
void allow(uint8_t* data, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(data, bytes); }
#else
void forbid(uint8_t*, size_t) {}
void allow(uint8_t*, size_t) {}
#endif

}  // namespace mooncake_kv::local
