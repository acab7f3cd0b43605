// XXH3 with 128 bits and seed 0, without a library, so that the core links alone. The loop over long inputs is chosen once, by cpuid.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mooncake_kv {

inline constexpr size_t XXH3_BYTES = 16;
inline constexpr size_t XXH3_SECRET_BYTES = 192;
extern const uint8_t XXH3_SECRET[XXH3_SECRET_BYTES];

/** Mixes `stripeCount` stripes of 64 bytes into the eight lanes; stripe n is keyed by the secret from byte 8 n on. */
using Xxh3Accumulate = void (*)(uint64_t lanes[8], const uint8_t* stripes, size_t stripeCount, const uint8_t* secret);

void xxh3AccumulatePortable(uint64_t lanes[8], const uint8_t* stripes, size_t stripeCount, const uint8_t* secret);
/** Null on machines without AVX2. */
Xxh3Accumulate xxh3AccumulateAvx2();
/** The fastest of them here. */
Xxh3Accumulate xxh3Accumulate();

/** Big-endian, the upper half first: the canonical form, as Python's `xxh3_128_digest` gives it. */
void xxh3Digest(Xxh3Accumulate accumulate, const uint8_t* message, size_t bytes, uint8_t digest[XXH3_BYTES]);

/** The same digest of a message that comes in pieces. One thread. */
class Xxh3Stream {
 public:
  void update(const uint8_t* piece, size_t bytes);
  /** Of all that came since the last one; begins anew. */
  void digest(uint8_t digest[XXH3_BYTES]);

 private:
  static constexpr size_t STRIPE_BYTES = 64;
  static constexpr size_t ROUND_BYTES = 1024;

  void begin();

  Xxh3Accumulate accumulate_ = xxh3Accumulate();
  bool begun_ = false;
  size_t total_ = 0;
  size_t held_ = 0;
  alignas(64) uint64_t lanes_[8]{};
  /** The last stripe of the round before, then what no round has taken: one that ends the message is treated otherwise. */
  uint8_t buffer_[STRIPE_BYTES + ROUND_BYTES]{};
};

}  // namespace mooncake_kv
