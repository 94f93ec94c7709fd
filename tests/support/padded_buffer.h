// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "ddp/base/buffer.h"

namespace ddp::test {

// Elements between two poisoned margins, which reveal writes outside the elements. `offset` shifts
// the elements away from an aligned address.
class PaddedBuffer {
 public:
  static constexpr std::size_t kMargin = 64;

  PaddedBuffer(DType dtype, std::size_t count, std::size_t offset = 0)
      : dtype_(dtype),
        count_(count),
        start_(kMargin + offset * size_of(dtype)),
        bytes_(start_ + count * size_of(dtype) + kMargin, kPoison) {}

  [[nodiscard]] Buffer buffer() { return in(bytes_.data(), kCpuDevice); }

  // The same elements inside a copy of bytes().
  [[nodiscard]] Buffer in(void* copy_of_bytes, Device device) const {
    return {static_cast<std::byte*>(copy_of_bytes) + start_, count_, dtype_, device};
  }

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }

  [[nodiscard]] bool margins_are_intact() const {
    const auto end = bytes_.end() - static_cast<std::ptrdiff_t>(kMargin);
    const auto is_poison = [](std::byte b) { return b == kPoison; };
    return std::all_of(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(start_),
                       is_poison) &&
           std::all_of(end, bytes_.end(), is_poison);
  }

  // Exact for all dtypes, except for large int64 values.
  [[nodiscard]] double at(std::size_t i) {
    return dispatch(dtype_, [&](auto zero) {
      using T = decltype(zero);
      T element;
      std::memcpy(&element, bytes_.data() + start_ + i * sizeof(T), sizeof(T));
      if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(element);
      if constexpr (!std::is_arithmetic_v<T>) return double{static_cast<float>(element)};
    });
  }

  // The dtype must be able to represent the value.
  void set(std::size_t i, double value) {
    dispatch(dtype_, [&](auto zero) {
      using T = decltype(zero);
      T element;
      if constexpr (std::is_arithmetic_v<T>) element = static_cast<T>(value);
      if constexpr (!std::is_arithmetic_v<T>) element = T(static_cast<float>(value));
      std::memcpy(bytes_.data() + start_ + i * sizeof(T), &element, sizeof(T));
    });
  }

  // Fills with small integers, which every dtype represents and adds exactly. They start at 1, so
  // that a missing term shows.
  void set_small_integers(unsigned seed) {
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < count_; ++i) set(i, 1 + static_cast<double>(random() % 10));
  }

  // Fills with random bits, which include infinities, NaNs, subnormals, and integers that overflow.
  void set_random_bits(unsigned seed) {
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < count_ * size_of(dtype_); ++i) {
      bytes_[start_ + i] = static_cast<std::byte>(random());
    }
  }

 private:
  static constexpr std::byte kPoison{0xa5};

  DType dtype_;
  std::size_t count_;
  std::size_t start_;
  std::vector<std::byte> bytes_;
};

}  // namespace ddp::test
