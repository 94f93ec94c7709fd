// SPDX-License-Identifier: MIT
//
// All loops for one instruction set: kVectorBytes is the size of its vectors, Float16Format how it
// converts float16. Compiled once for each; lanes.h says what that forbids.
#pragma once

#include "ddp/buffer_ops/cast_loop.h"
#include "ddp/buffer_ops/half_formats.h"
#include "ddp/buffer_ops/lanes.h"
#include "ddp/buffer_ops/loops.h"
#include "ddp/buffer_ops/reduce_loops.h"

namespace ddp::buffer_ops {
namespace {

template <class L>
constexpr void set_floating_point(ReduceLoop (&row)[5]) {
  row[static_cast<int>(ReduceOp::kSum)] = Reduce<L, Sum>::run;
  row[static_cast<int>(ReduceOp::kProduct)] = Reduce<L, Product>::run;
  row[static_cast<int>(ReduceOp::kMin)] = Reduce<L, Min>::run;
  row[static_cast<int>(ReduceOp::kMax)] = Reduce<L, Max>::run;
  row[static_cast<int>(ReduceOp::kAverage)] = Reduce<L, ScaledSum>::run;
}

// Signed overflow is undefined, so what may overflow is computed unsigned.
template <class T, class Unsigned, int kVectorBytes>
constexpr void set_integer(ReduceLoop (&row)[5]) {
  row[static_cast<int>(ReduceOp::kSum)] = Reduce<PlainLanes<Unsigned, kVectorBytes>, Sum>::run;
  row[static_cast<int>(ReduceOp::kProduct)] =
      Reduce<PlainLanes<Unsigned, kVectorBytes>, Product>::run;
  row[static_cast<int>(ReduceOp::kMin)] = Reduce<PlainLanes<T, kVectorBytes>, Min>::run;
  row[static_cast<int>(ReduceOp::kMax)] = Reduce<PlainLanes<T, kVectorBytes>, Max>::run;
}

template <int kVectorBytes, class Float16Format>
constexpr Loops make_loops() {
  using Float = PlainLanes<float, kVectorBytes>;
  using Double = PlainLanes<double, kVectorBytes>;
  using Half = HalfLanes<Float16Format>;
  using BHalf = HalfLanes<BFloat16Format<kVectorBytes>>;
  constexpr int kFloat = static_cast<int>(DType::kFloat32);
  constexpr int kHalf = static_cast<int>(DType::kFloat16);
  constexpr int kBHalf = static_cast<int>(DType::kBFloat16);

  Loops loops{};
  set_floating_point<Float>(loops.reduce[kFloat]);
  set_floating_point<Double>(loops.reduce[static_cast<int>(DType::kFloat64)]);
  set_floating_point<Half>(loops.reduce[kHalf]);
  set_floating_point<BHalf>(loops.reduce[kBHalf]);
  set_integer<std::int32_t, std::uint32_t, kVectorBytes>(
      loops.reduce[static_cast<int>(DType::kInt32)]);
  set_integer<std::int64_t, std::uint64_t, kVectorBytes>(
      loops.reduce[static_cast<int>(DType::kInt64)]);
  set_integer<std::uint8_t, std::uint8_t, kVectorBytes>(
      loops.reduce[static_cast<int>(DType::kUInt8)]);
  using Floats = FloatPairLanes<kVectorBytes>;
  loops.cast[kFloat][kHalf] = cast<Floats, OrderedHalfLanes<Float16Format>>;
  loops.cast[kFloat][kBHalf] = cast<Floats, OrderedHalfLanes<BFloat16Format<kVectorBytes>>>;
  loops.cast[kHalf][kFloat] = cast<OrderedHalfLanes<Float16Format>, Floats>;
  loops.cast[kBHalf][kFloat] = cast<OrderedHalfLanes<BFloat16Format<kVectorBytes>>, Floats>;
  return loops;
}

}  // namespace
}  // namespace ddp::buffer_ops
