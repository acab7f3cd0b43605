// The hash algorithms of vLLM's prefix cache, by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/sha256.h"
#include "core/xxh3.h"

namespace mooncake_kv {

enum class HashAlgorithm { SHA256, SHA256_CBOR, XXHASH, XXHASH_CBOR };

inline std::optional<HashAlgorithm> hashAlgorithm(std::string_view name) {
  if (name == "sha256") return HashAlgorithm::SHA256;
  if (name == "sha256_cbor") return HashAlgorithm::SHA256_CBOR;
  if (name == "xxhash") return HashAlgorithm::XXHASH;
  if (name == "xxhash_cbor") return HashAlgorithm::XXHASH_CBOR;
  return std::nullopt;
}

inline constexpr size_t digestBytes(HashAlgorithm algorithm) {
  return algorithm == HashAlgorithm::SHA256 || algorithm == HashAlgorithm::SHA256_CBOR ? SHA256_BYTES : XXH3_BYTES;
}

/** Digest of a message with `ROOM` writable bytes after it. */
struct Sha256Digest {
  static constexpr size_t BYTES = SHA256_BYTES;
  static constexpr size_t ROOM = SHA256_PADDING_MAX;
  const Sha256Compress compress = sha256Compress();
  void operator()(uint8_t* message, size_t bytes, uint8_t* digest) const { sha256InPlace(compress, message, bytes, digest); }
};

struct XxhashDigest {
  static constexpr size_t BYTES = XXH3_BYTES;
  static constexpr size_t ROOM = 0;
  const Xxh3Accumulate accumulate = xxh3Accumulate();
  void operator()(const uint8_t* message, size_t bytes, uint8_t* digest) const { xxh3Digest(accumulate, message, bytes, digest); }
};

}  // namespace mooncake_kv
