// SPDX-License-Identifier: MIT
#include "buffer_ops/experiments.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ddp::bench {
namespace {

enum class Store { kCached, kNonTemporal };

typedef float Vector __attribute__((vector_size(16)));

constexpr std::size_t kLine = 16;  // floats in 64 bytes

template <Store kStore>
void store(Vector vector, float* to) {
#if defined(__SSE2__)
  if constexpr (kStore == Store::kNonTemporal) return _mm_stream_ps(to, vector);
#endif
  *reinterpret_cast<Vector*>(to) = vector;
}

template <Store kStore, std::size_t kAhead>
void add(const float* a, const float* b, float* const (&targets)[2], std::size_t count) {
  for (std::size_t i = 0; i < count; i += kLine) {
    if constexpr (kAhead > 0) {
      __builtin_prefetch(a + i + kAhead);
      __builtin_prefetch(b + i + kAhead);
    }
    Vector sums[4];
    for (std::size_t v = 0; v < 4; ++v) {
      sums[v] = *reinterpret_cast<const Vector*>(a + i + 4 * v) +
                *reinterpret_cast<const Vector*>(b + i + 4 * v);
    }
    for (float* target : targets) {
      if (target == nullptr) continue;
      for (std::size_t v = 0; v < 4; ++v) store<kStore>(sums[v], target + i + 4 * v);
    }
  }
#if defined(__SSE2__)
  if constexpr (kStore == Store::kNonTemporal) _mm_sfence();
#endif
}

}  // namespace

std::vector<SumLoop> sum_loops() {
  std::vector<SumLoop> loops{{"plain", add<Store::kCached, 0>},
                             {"prefetch 512 B", add<Store::kCached, 8 * kLine>},
                             {"prefetch 4 KiB", add<Store::kCached, 64 * kLine>}};
#if defined(__SSE2__)
  loops.push_back({"non-temporal", add<Store::kNonTemporal, 0>});
#endif
  return loops;
}

}  // namespace ddp::bench
