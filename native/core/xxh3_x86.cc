// The loop of XXH3 over long inputs with AVX2, chosen at run time.
#include "core/xxh3.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace mooncake_kv {

namespace {

__attribute__((target("avx2"))) inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

__attribute__((target("avx2"))) void accumulate(uint64_t lanes[8], const uint8_t* stripes, size_t stripeCount, const uint8_t* secret) {
  __m256i sums[2] = {load(lanes), load(lanes + 4)};
  for (; stripeCount > 0; stripeCount--, stripes += 64, secret += 8) {
    for (int half = 0; half < 2; half++) {
      const __m256i values = load(stripes + 32 * half);
      const __m256i keyed = _mm256_xor_si256(values, load(secret + 32 * half));
      // Lower times upper 32 bits of each lane; the values themselves go to the neighbouring lane.
      const __m256i products = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
      const __m256i swapped = _mm256_shuffle_epi32(values, _MM_SHUFFLE(1, 0, 3, 2));
      sums[half] = _mm256_add_epi64(sums[half], _mm256_add_epi64(products, swapped));
    }
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sums[0]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes + 4), sums[1]);
}

}  // namespace

Xxh3Accumulate xxh3AccumulateAvx2() { return __builtin_cpu_supports("avx2") ? accumulate : nullptr; }

}  // namespace mooncake_kv

#else

namespace mooncake_kv {

Xxh3Accumulate xxh3AccumulateAvx2() { return nullptr; }

}  // namespace mooncake_kv

#endif
