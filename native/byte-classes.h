// SPDX-License-Identifier: GPL-2.0-only
// Classes of bytes, of which a byte is in those that both of its halves are in: as processors with AVX2 tell them for 32 bytes at once.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>

// A function for processors that have it.
#define SLUICE_AVX2 [[gnu::target("avx2")]]
#endif

namespace sluice {

struct ByteClasses {
  alignas(16) uint8_t low[16] = {};
  alignas(16) uint8_t high[16] = {};

  constexpr void Add(uint8_t byte, uint8_t classes) {
    low[byte & 0xf] |= classes;
    high[byte >> 4] |= classes;
  }
  constexpr uint8_t Of(uint8_t byte) const { return low[byte & 0xf] & high[byte >> 4]; }
};

// A pair is in those that its first byte is in of the one, and its second byte of the other.
struct PairClasses {
  ByteClasses first;
  ByteClasses second;

  uint8_t At(const uint8_t* bytes) const { return first.Of(bytes[0]) & second.Of(bytes[1]); }
};

#if defined(__x86_64__)
inline bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

constexpr size_t kBytesAtOnce = sizeof(__m256i);

SLUICE_AVX2 inline __m256i BytesAt(const uint8_t* bytes) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)); }

SLUICE_AVX2 inline __m256i TwiceAt(const uint8_t* halves) {
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(halves)));
}

// Of each byte.
SLUICE_AVX2 inline __m256i ClassesOf(const ByteClasses& classes, __m256i bytes) {
  const __m256i half = _mm256_set1_epi8(0xf);
  const __m256i low = _mm256_shuffle_epi8(TwiceAt(classes.low), _mm256_and_si256(bytes, half));
  const __m256i high = _mm256_shuffle_epi8(TwiceAt(classes.high), _mm256_and_si256(_mm256_srli_epi16(bytes, 4), half));
  return _mm256_and_si256(low, high);
}

// A bit for each byte that is in any class.
SLUICE_AVX2 inline uint32_t InAny(__m256i classes) {
  return ~static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(classes, _mm256_setzero_si256())));
}

// A bit for each pair that is in any class. One byte more is read.
SLUICE_AVX2 inline uint32_t PairsIn(const PairClasses& classes, const uint8_t* bytes) {
  return InAny(_mm256_and_si256(ClassesOf(classes.first, BytesAt(bytes)), ClassesOf(classes.second, BytesAt(bytes + 1))));
}
#endif

}  // namespace sluice
