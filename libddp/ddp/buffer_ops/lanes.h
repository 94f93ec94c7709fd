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

// The same with the lanes in the order of the elements, for Format::to_order and from_order.
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

}  // namespace
}  // namespace ddp::buffer_ops
