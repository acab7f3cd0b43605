// Pages before they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>

namespace mooncake_kv {

constexpr size_t PAGE_BYTES = 4096;
constexpr size_t HUGE_PAGE_BYTES = 2 << 20;

/**
 * Makes the system back `bytes` at `data` (at a page's begin) with memory now: one call for many pages costs less than a fault
 * for each, and spares whoever writes first. The contents stay as they are, also while other threads write them. Works in slices of
 * HUGE_PAGE_BYTES, since the system lets nobody else map memory during a slice, and ends early, with true, when `stop` asks.
 * False when the system has no memory. Any thread.
 */
bool populate(uint8_t* data, size_t bytes, const std::stop_token& stop = {});

/** The way of `populate` on kernels before 5.14, which know no MADV_POPULATE_WRITE. */
void touchPages(uint8_t* data, size_t bytes);

}  // namespace mooncake_kv
