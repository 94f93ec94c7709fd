// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "ddp/base/half.h"

namespace ddp {

enum class DType : std::uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt64, kUInt8 };

inline constexpr DType kAllDTypes[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                                       DType::kBFloat16, DType::kInt32,   DType::kInt64,
                                       DType::kUInt8};

// PyTorch's spelling: "float32", "bfloat16", "uint8", ...
[[nodiscard]] std::string_view to_string(DType dtype);

[[nodiscard]] bool is_floating_point(DType dtype);

// Calls f with a value-initialised element of the C++ type behind `dtype`; returns what f returns.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kInt32:
      return f(std::int32_t{});
    case DType::kInt64:
      return f(std::int64_t{});
    case DType::kUInt8:
      break;
  }
  return f(std::uint8_t{});
}

// Bytes per element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kUInt8:
      break;
  }
  return 1;
}

// The type in which arithmetic on elements of 16 bits is done: float32 for them, else `dtype`.
[[nodiscard]] constexpr DType widened(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
}

template <class T, class... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

// The C++ types for which a DType stands.
template <class T>
concept HasDType =
    is_one_of<T, float, double, Float16, BFloat16, std::int32_t, std::int64_t, std::uint8_t>;

template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(HasDType<T>,
                "no DType stands for this C++ type, only for float, double, ddp::Float16, "
                "ddp::BFloat16, std::int32_t, std::int64_t and std::uint8_t (which a std::size_t "
                "has to be converted to)");
  return DType::kUInt8;
}();
template <>
inline constexpr DType dtype_of<float> = DType::kFloat32;
template <>
inline constexpr DType dtype_of<double> = DType::kFloat64;
template <>
inline constexpr DType dtype_of<Float16> = DType::kFloat16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::kInt32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::kInt64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::kUInt8;

}  // namespace ddp
