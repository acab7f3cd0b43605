// SHA-256 without a library, so that the core links alone. The compression function is chosen once, by cpuid.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mooncake_kv {

inline constexpr size_t SHA256_BYTES = 32;
/** Room that `sha256InPlace` needs after the message for its padding. */
inline constexpr size_t SHA256_PADDING_MAX = 72;

using Sha256Compress = void (*)(uint32_t state[8], const uint8_t* blocks, size_t blockCount);

void sha256CompressPortable(uint32_t state[8], const uint8_t* blocks, size_t blockCount);
/** Null on machines without the SHA extensions. */
Sha256Compress sha256CompressHardware();
/** The faster of the two here. */
Sha256Compress sha256Compress();

/** Digest of a message in a buffer that has SHA256_PADDING_MAX writable bytes after it. */
void sha256InPlace(Sha256Compress compress, uint8_t* message, size_t bytes, uint8_t digest[SHA256_BYTES]);

}  // namespace mooncake_kv
