// SPDX-License-Identifier: MIT
//
// Vectors whose lanes are samples: lane l of the vector at pixel p holds pixel p of sample l. Loops
// over such vectors need no shuffles and no special cases at the borders of an image.
//
// This header is compiled once for each instruction set that a binary supports. So everything in it
// has internal linkage, and it calls nothing of the standard library: the linker would take a
// function that two files share from either of them, possibly from the one compiled for the newer
// processor.
#pragma once

#include <cstddef>

#include "ddp/kernels/shapes.h"

namespace ddp::detail {
namespace {

template <class T, int kVectorBytes>
struct Lanes {
  using Element = T;
  static constexpr std::size_t kCount = kVectorBytes / sizeof(T);
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  typedef T Unaligned __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};

// Loads the vector here, once. An x86 instruction can take an operand from memory, and gcc prefers
// that to a register even if it then loads the operand again for each of several uses.
template <class V>
V loaded(const V& from) {
  V vector = from;
#ifdef __AVX512F__
  asm("" : "+v"(vector));
#elif defined(__x86_64__)
  asm("" : "+x"(vector));
#endif
  return vector;
}

// Up to Lanes::kCount consecutive samples of a batch.
template <class T>
struct Samples {
  T* first;
  std::size_t distance;  // from one sample to the next, in elements
  std::size_t count;

  // The same samples from element `offset` on.
  Samples moved(std::size_t offset) const { return {first + offset, distance, count}; }
};

template <std::size_t... kValues>
struct Indices {};
template <std::size_t kCount, std::size_t... kValues>
struct IndicesBelow : IndicesBelow<kCount - 1, kCount - 1, kValues...> {};
template <std::size_t... kValues>
struct IndicesBelow<0, kValues...> {
  using Type = Indices<kValues...>;
};

template <class L, std::size_t... i>
void interleave(typename L::Vector& a, typename L::Vector& b, Indices<i...>) {
  constexpr std::size_t n = L::kCount;
  const typename L::Vector low = __builtin_shufflevector(a, b, (i % 2 * n + i / 2)...);
  b = __builtin_shufflevector(a, b, (i % 2 * n + i / 2 + n / 2)...);
  a = low;
}
// a = a0 b0 a1 b1 ..., b = what follows.
template <class L>
void interleave(typename L::Vector& a, typename L::Vector& b) {
  interleave<L>(a, b, typename IndicesBelow<L::kCount>::Type{});
}

template <class L, std::size_t... i>
void deinterleave(typename L::Vector& a, typename L::Vector& b, Indices<i...>) {
  const typename L::Vector even = __builtin_shufflevector(a, b, (2 * i)...);
  b = __builtin_shufflevector(a, b, (2 * i + 1)...);
  a = even;
}
// The inverse of the above.
template <class L>
void deinterleave(typename L::Vector& a, typename L::Vector& b) {
  deinterleave<L>(a, b, typename IndicesBelow<L::kCount>::Type{});
}

// Transposes a square: log2(n) times, rows i and i + n/2 are interleaved to rows 2i and 2i + 1.
template <class L>
void transpose(typename L::Vector (&rows)[L::kCount]) {
  constexpr std::size_t n = L::kCount;
#pragma GCC unroll 8
  for (std::size_t step = 1; step < n; step *= 2) {
    typename L::Vector next[n];
#pragma GCC unroll 16
    for (std::size_t i = 0; i < n / 2; ++i) {
      next[2 * i] = rows[i];
      next[2 * i + 1] = rows[i + n / 2];
      interleave<L>(next[2 * i], next[2 * i + 1]);
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < n; ++i) rows[i] = next[i];
  }
}

// lanes[i] = element i of every sample, for `count` elements; 0 where there is no sample.
template <class L, class T = typename L::Element>
void to_lanes(Samples<const T> samples, std::size_t count, typename L::Vector* lanes) {
  constexpr std::size_t n = L::kCount;
  std::size_t i = 0;
  if (samples.count == n) {
    for (; i + n <= count; i += n) {
      typename L::Vector rows[n];
#pragma GCC unroll 16
      for (std::size_t l = 0; l < n; ++l) {
        rows[l] = *reinterpret_cast<const typename L::Unaligned*>(samples.first +
                                                                  l * samples.distance + i);
      }
      transpose<L>(rows);
#pragma GCC unroll 16
      for (std::size_t l = 0; l < n; ++l) lanes[i + l] = rows[l];
    }
  }
  for (; i < count; ++i) {
    for (std::size_t l = 0; l < n; ++l) {
      lanes[i][l] = l < samples.count ? samples.first[l * samples.distance + i] : T{0};
    }
  }
}

// The inverse of the above.
template <class L, class T = typename L::Element>
void from_lanes(const typename L::Vector* lanes, std::size_t count, Samples<T> samples,
                WriteMode mode) {
  constexpr std::size_t n = L::kCount;
  std::size_t i = 0;
  if (samples.count == n) {
    for (; i + n <= count; i += n) {
      typename L::Vector rows[n];
#pragma GCC unroll 16
      for (std::size_t l = 0; l < n; ++l) rows[l] = lanes[i + l];
      transpose<L>(rows);
#pragma GCC unroll 16
      for (std::size_t l = 0; l < n; ++l) {
        auto& target =
            *reinterpret_cast<typename L::Unaligned*>(samples.first + l * samples.distance + i);
        target = mode == WriteMode::kAccumulate ? target + rows[l] : rows[l];
      }
    }
  }
  for (; i < count; ++i) {
    for (std::size_t l = 0; l < samples.count; ++l) {
      T& target = samples.first[l * samples.distance + i];
      target = mode == WriteMode::kAccumulate ? target + lanes[i][l] : lanes[i][l];
    }
  }
}

}  // namespace
}  // namespace ddp::detail
