// SPDX-License-Identifier: MIT
//
// The only file of this library that is compiled with -mavx2 -mf16c. It is compiled without -mfma,
// so that products and sums are rounded as in the other loops.
#include <cpuid.h>
#include <immintrin.h>

#include "ddp/buffer_ops/loops_of.h"

namespace ddp::buffer_ops {
namespace {

// The first half of the elements, then the second.
struct Float16Format : HalfVectors<32> {
  static Pair widen(Halves halves) {
    const auto all = reinterpret_cast<__m256i>(halves);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(all)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(all, 1))};
  }
  static Halves round(Pair lanes) {
    const __m128i first = _mm256_cvtps_ph(lanes.first, _MM_FROUND_TO_NEAREST_INT);
    const __m128i second = _mm256_cvtps_ph(lanes.second, _MM_FROUND_TO_NEAREST_INT);
    return reinterpret_cast<Halves>(_mm256_set_m128i(second, first));
  }
  static Pair to_order(Pair lanes) { return lanes; }
  static Pair from_order(Pair lanes) { return lanes; }
};

// What __builtin_cpu_supports("f16c") says, which clang 16 does not know.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

const Loops* avx2_loops() {
  static constexpr Loops kLoops = make_loops<32, Float16Format>();
  // Asked once, since a virtual machine answers the instruction cpuid only after some 30 µs.
  static const bool runs_here = __builtin_cpu_supports("avx2") && has_f16c();
  return runs_here ? &kLoops : nullptr;
}

}  // namespace ddp::buffer_ops
