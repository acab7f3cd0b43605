// CRC-32C, in hardware where there is an instruction for it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mooncake_kv {

/** Standard CRC-32C of `bytes` after a prefix whose CRC is `before` (0 for none). */
uint32_t crc32c(uint32_t before, const uint8_t* data, size_t bytes);
uint32_t crc32cPortable(uint32_t before, const uint8_t* data, size_t bytes);

/**
 * Checksum of a stored value: CRC-32C over the CRC-32Cs of its four quarters, which the processor computes side by side (one
 * alone waits three cycles for each step). Any change of up to 32 bits in a row changes it. Never leaves this process.
 */
uint32_t valueChecksum(const uint8_t* data, size_t bytes);

}  // namespace mooncake_kv
