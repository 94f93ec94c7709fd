// SPDX-License-Identifier: MIT
//
// How the two 16-bit types become float32 and come back, for HalfLanes (lanes.h, which also says
// what is forbidden here).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ddp/buffer_ops/lanes.h"

namespace ddp::buffer_ops {
namespace {

// For conversions that find two 16-bit elements in each word of 32 bits: the even ones become
// `first`, the odd ones `second`, and no lane moves.
template <int kVectorBytes>
struct EvenAndOdd : HalfVectors<kVectorBytes> {
  using V = HalfVectors<kVectorBytes>;
  using typename V::Floats, typename V::Pair;
  static constexpr std::size_t kFloats = kVectorBytes / sizeof(float);

  static Pair to_order(Pair lanes) {
    return interleave(lanes, std::make_index_sequence<kFloats>());
  }
  static Pair from_order(Pair lanes) {
    return deinterleave(lanes, std::make_index_sequence<kFloats>());
  }

 private:
  template <std::size_t... i>
  static Pair interleave(Pair p, std::index_sequence<i...>) {
    return {__builtin_shufflevector(p.first, p.second, (i % 2 * kFloats + i / 2)...),
            __builtin_shufflevector(p.first, p.second, (i % 2 * kFloats + (i + kFloats) / 2)...)};
  }
  template <std::size_t... i>
  static Pair deinterleave(Pair p, std::index_sequence<i...>) {
    return {__builtin_shufflevector(p.first, p.second, (2 * i)...),
            __builtin_shufflevector(p.first, p.second, (2 * i + 1)...)};
  }
};

// What class BFloat16 does, lane by lane.
template <int kVectorBytes>
struct BFloat16Format : EvenAndOdd<kVectorBytes> {
  using V = HalfVectors<kVectorBytes>;
  using typename V::Floats, typename V::Halves, typename V::Pair, typename V::Words;

  static Pair widen(Halves halves) {
    const auto words = reinterpret_cast<Words>(halves);
    return {reinterpret_cast<Floats>(words << 16), reinterpret_cast<Floats>(words & 0xffff0000U)};
  }
  static Halves round(Pair lanes) {
    return reinterpret_cast<Halves>((rounded(lanes.first) >> 16) |
                                    (rounded(lanes.second) & 0xffff0000U));
  }

 private:
  // The upper half is what counts.
  static Words rounded(Floats floats) {
    const auto bits = reinterpret_cast<Words>(floats);
    return floats != floats ? bits | 0x400000U : bits + 0x7fffU + ((bits >> 16) & 1U);
  }
};

// What class Float16 does, lane by lane, without instructions for it. Comparisons are signed:
// SSE2 has no others.
template <int kVectorBytes>
struct PortableFloat16Format : EvenAndOdd<kVectorBytes> {
  using V = HalfVectors<kVectorBytes>;
  using typename V::Floats, typename V::Halves, typename V::Pair, typename V::Words;
  using Signed = typename V::SignedWords;

  static Pair widen(Halves halves) {
    const auto words = reinterpret_cast<Words>(halves);
    return {widened(words & 0xffffU), widened(words >> 16)};
  }
  static Halves round(Pair lanes) {
    return reinterpret_cast<Halves>(rounded(lanes.first) | (rounded(lanes.second) << 16));
  }

 private:
  // The difference between the biases of the two exponents, at the place of a float32's exponent.
  static constexpr std::uint32_t kRebias = 112U << 23;

  static Floats widened(Words half) {
    const Words magnitude = half & 0x7fffU;
    const auto compared = reinterpret_cast<Signed>(magnitude);
    const Words normal = (magnitude << 13) + kRebias;
    const Words special = normal + kRebias;
    const auto subnormal =
        reinterpret_cast<Words>(__builtin_convertvector(compared, Floats) * 0x1p-24F);
    Words result = compared < 0x400 ? subnormal : normal;
    result = compared >= 0x7c00 ? special : result;
    result = compared > 0x7c00 ? special | 0x400000U : result;
    return reinterpret_cast<Floats>(result | ((half & 0x8000U) << 16));
  }

  static Words rounded(Floats floats) {
    const auto bits = reinterpret_cast<Words>(floats);
    const Words magnitude = bits & 0x7fffffffU;
    const auto compared = reinterpret_cast<Signed>(magnitude);
    const Words normal = (magnitude - kRebias + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    const Words subnormal =
        reinterpret_cast<Words>(reinterpret_cast<Floats>(magnitude) + 0.5F) - 0x3f000000U;
    const Words nan = ((magnitude >> 13) & 0x3ffU) | 0x7e00U;
    Words result = compared < 0x38800000 ? subnormal : normal;
    result = compared >= 0x477ff000 ? Words{} + 0x7c00U : result;
    result = compared > 0x7f800000 ? nan : result;
    return result | ((bits >> 16) & 0x8000U);
  }
};

}  // namespace
}  // namespace ddp::buffer_ops
