// SPDX-License-Identifier: MIT
//
// How elements become lanes to compute with, and come out again. A type of lanes has
//
//   Stored   an element in memory           Lanes    kCount of them to compute with
//   Scalar   what one is computed in        Packed   kCount of them, rounded to Stored
//   kBlockVectors   how many fill the registers best
//
// This header is compiled once for each instruction set that a binary supports, so everything in it
// has internal linkage and nothing of the standard library is called: a function that two files
// share would be taken from either, also from the one compiled for the newer processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ddp::buffer_ops {
namespace {

template <class T, int kBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};

// Elements that are computed with as they are.
template <class T, int kVectorBytes>
struct PlainLanes {
  using Stored = T;
  using Scalar = T;
  using Lanes = typename VectorOf<T, kVectorBytes>::Type;
  using Packed = Lanes;
  using Unaligned = typename VectorOf<T, kVectorBytes>::Unaligned;
  static constexpr std::size_t kCount = kVectorBytes / sizeof(T);
  static constexpr std::size_t kBlockVectors = 4;
  static constexpr bool kIsFloatingPoint = static_cast<T>(0.5) != T{0};

  static Lanes load(const T* from) { return *reinterpret_cast<const Unaligned*>(from); }
  static Packed pack(Lanes lanes) { return lanes; }
  static void store(Packed packed, T* to) { *reinterpret_cast<Unaligned*>(to) = packed; }

  template <class Operation>
  static Lanes combine(Lanes a, Lanes b) {
    return Operation::combine(a, b);
  }
  static Lanes scale(Lanes lanes, T factor) { return lanes * factor; }
};

// Vectors for a vector of 16-bit elements, which becomes two of float32.
template <int kVectorBytes>
struct HalfVectors {
  using Floats = typename VectorOf<float, kVectorBytes>::Type;
  using Words = typename VectorOf<std::uint32_t, kVectorBytes>::Type;
  using SignedWords = typename VectorOf<std::int32_t, kVectorBytes>::Type;
  using Halves = typename VectorOf<std::uint16_t, kVectorBytes>::Type;
  using Unaligned = typename VectorOf<std::uint16_t, kVectorBytes>::Unaligned;
  static constexpr std::size_t kCount = kVectorBytes / sizeof(std::uint16_t);

  struct Pair {
    Floats first, second;
  };
};

// 16-bit elements, computed with in float32; Format converts, to an order of lanes of its own.
template <class Format>
struct HalfLanes {
  using Stored = std::uint16_t;
  using Scalar = float;
  using Lanes = typename Format::Pair;
  using Packed = typename Format::Halves;
  using Unaligned = typename Format::Unaligned;
  static constexpr std::size_t kCount = Format::kCount;
  static constexpr std::size_t kBlockVectors = 2;
  static constexpr bool kIsFloatingPoint = true;

  static Lanes load(const Stored* from) {
    return Format::widen(*reinterpret_cast<const Unaligned*>(from));
  }
  static Packed pack(Lanes lanes) { return Format::round(lanes); }
  static void store(Packed packed, Stored* to) { *reinterpret_cast<Unaligned*>(to) = packed; }

  template <class Operation>
  static Lanes combine(Lanes a, Lanes b) {
    return {Operation::combine(a.first, b.first), Operation::combine(a.second, b.second)};
  }
  static Lanes scale(Lanes lanes, float factor) {
    return {lanes.first * factor, lanes.second * factor};
  }
};

// The same with the lanes in the order of the elements.
template <class Format>
struct OrderedHalfLanes : HalfLanes<Format> {
  using Base = HalfLanes<Format>;
  static typename Base::Lanes load(const std::uint16_t* from) {
    return Format::to_order(Base::load(from));
  }
  static typename Base::Packed pack(typename Base::Lanes lanes) {
    return Base::pack(Format::from_order(lanes));
  }
};

// As many float32 elements as there are in a vector of 16-bit ones.
template <int kVectorBytes>
struct FloatPairLanes {
  using Stored = float;
  using Single = PlainLanes<float, kVectorBytes>;
  using Lanes = typename HalfVectors<kVectorBytes>::Pair;
  using Packed = Lanes;
  static constexpr std::size_t kCount = 2 * Single::kCount;

  static Lanes load(const float* from) {
    return {Single::load(from), Single::load(from + Single::kCount)};
  }
  static Packed pack(Lanes lanes) { return lanes; }
  static void store(Packed packed, float* to) {
    Single::store(packed.first, to);
    Single::store(packed.second, to + Single::kCount);
  }
};

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
  static constexpr std::uint32_t kRebias = 112U << 23;  // between the exponents, in a float32

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
