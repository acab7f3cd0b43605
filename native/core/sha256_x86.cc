// SHA-256 with the SHA extensions of x86-64, chosen at run time.
#include "core/sha256.h"
#include "core/sha256_constants.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace mooncake_kv {

namespace {

// The instructions keep the eight working variables in two registers, ABEF and CDGH; the shuffles at both ends convert.
__attribute__((target("sha,sse4.1,ssse3"))) void compress(uint32_t state[8], const uint8_t* blocks, size_t blockCount) {
  const __m128i bigEndian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  const __m128i dcba = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state)), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4)), 0x1b);
  __m128i abef = _mm_alignr_epi8(dcba, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, dcba, 0xf0);

  for (; blockCount > 0; blockCount--, blocks += 64) {
    const __m128i abefBefore = abef;
    const __m128i cdghBefore = cdgh;
    __m128i words[4];
    for (int i = 0; i < 4; i++) {
      words[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks + 16 * i)), bigEndian);
    }
#pragma GCC unroll 16
    for (int four = 0; four < 16; four++) {
      __m128i& current = words[four % 4];
      const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(SHA256_ROUND + 4 * four));
      const __m128i keyed = _mm_add_epi32(current, constants);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keyed);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keyed, 0x0e));
      if (four < 12) {  // Message words of four rounds, four groups ahead.
        const __m128i middle = _mm_alignr_epi8(words[(four + 3) % 4], words[(four + 2) % 4], 4);
        const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(current, words[(four + 1) % 4]), middle);
        current = _mm_sha256msg2_epu32(sum, words[(four + 3) % 4]);
      }
    }
    abef = _mm_add_epi32(abef, abefBefore);
    cdgh = _mm_add_epi32(cdgh, cdghBefore);
  }

  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace

Sha256Compress sha256CompressHardware() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & (1u << 29)) == 0) return nullptr;
  return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3") ? compress : nullptr;
}

}  // namespace mooncake_kv

#else

namespace mooncake_kv {

Sha256Compress sha256CompressHardware() { return nullptr; }

}  // namespace mooncake_kv

#endif
