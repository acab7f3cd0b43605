#include "core/populate.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace mooncake_kv {

// Others may write the same bytes with plain stores meanwhile. An atomic "or" with nothing never changes what they wrote, but
// ThreadSanitizer could not know that the two need no order.
__attribute__((no_sanitize("thread"))) void touchPages(uint8_t* data, size_t bytes) {
  for (size_t offset = 0; offset < bytes; offset += PAGE_BYTES) __atomic_fetch_or(data + offset, 0, __ATOMIC_RELAXED);
}

bool populate(uint8_t* data, size_t bytes, const std::stop_token& stop) {
  for (size_t offset = 0; offset < bytes && !stop.stop_requested(); offset += HUGE_PAGE_BYTES) {
    const size_t slice = std::min(HUGE_PAGE_BYTES, bytes - offset);
    int failed;
    do {
      failed = madvise(data + offset, slice, MADV_POPULATE_WRITE);
    } while (failed != 0 && (errno == EINTR || errno == EAGAIN));
    if (failed == 0) continue;
    if (errno != EINVAL) return false;
    touchPages(data + offset, slice);
  }
  return true;
}

}  // namespace mooncake_kv
