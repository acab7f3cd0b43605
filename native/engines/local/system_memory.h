// Memory of the system for the buffers of a pool.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mooncake_kv::local {

/** The bytes that a buffer of `bytes` gets: lines where whole pages would waste more than an eighth, else pages. */
size_t bufferCapacity(size_t bytes);
/** True when buffers of `capacity` are cut out of slabs. */
bool comesFromSlab(size_t capacity);

/** A buffer of its own, populated when it has whole pages; null when the system has no memory. */
uint8_t* allocateAlone(size_t capacity);
void releaseAlone(uint8_t* data, size_t capacity);

/** Address space of one slab, aligned to its size, without memory; null when the system has none. */
uint8_t* mapSlab();
void unmapSlab(uint8_t* data);
/** Gives all buffers of the slab memory, in one huge page where they fill it. False when the system has none. */
bool populateSlab(uint8_t* data, size_t capacity);
/** Takes the memory of one buffer of a slab away and leaves the addresses. */
void dropSlabPages(uint8_t* data, size_t bytes);

/** Under AddressSanitizer whoever touches a free buffer is reported, as with malloc. */
void forbid(uint8_t* data, size_t bytes);
void allow(uint8_t* data, size_t bytes);

}  // namespace mooncake_kv::local
