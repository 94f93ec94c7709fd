// SPDX-License-Identifier: MIT
//
// Storage types for the two 16-bit floating-point formats, bit-compatible with CUDA's __half and
// __nv_bfloat16. They hold bits and convert from and to float; code that uses them computes in
// float32. Conversions round to nearest, ties to even (IEEE 754), and keep infinities. A NaN
// becomes quiet and keeps the high bits of its payload, as with x86's F16C instructions.
#pragma once

#include <bit>
#include <cstdint>

namespace ddp {

class BFloat16 {
 public:
  BFloat16() = default;
  explicit BFloat16(float value) : bits_(round_from(value)) {}
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }
  [[nodiscard]] std::uint16_t bits() const { return bits_; }

 private:
  static std::uint16_t round_from(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
      return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // NaN: keep sign, make it quiet
    }
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
  }

  std::uint16_t bits_ = 0;
};

class Float16 {
 public:
  Float16() = default;
  explicit Float16(float value) : bits_(round_from(value)) {}
  explicit operator float() const { return widen(bits_); }
  [[nodiscard]] std::uint16_t bits() const { return bits_; }

 private:
  // A subnormal result is rounded by adding 0.5, whose ulp is the spacing of fp16 subnormals.
  static std::uint16_t round_from(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) {
      return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
    }
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
    if (magnitude < 0x38800000U) {
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign |
                                        (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t rebiased = magnitude - (112U << 23);
    return static_cast<std::uint16_t>(sign | ((rebiased + 0xfffU + ((rebiased >> 13) & 1U)) >> 13));
  }

  static float widen(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
    const std::uint32_t magnitude = half & 0x7fffU;
    if (magnitude >= 0x7c00U) {
      const std::uint32_t quiet = magnitude > 0x7c00U ? 0x400000U : 0U;
      return std::bit_cast<float>(sign | 0x7f800000U | quiet | ((magnitude & 0x3ffU) << 13));
    }
    if (magnitude >= 0x400U) return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
  }

  std::uint16_t bits_ = 0;
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2);

}  // namespace ddp
