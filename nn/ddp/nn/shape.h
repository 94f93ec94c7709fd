// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "ddp/kernels/shapes.h"

namespace ddp::nn {

// The sizes of a tensor's dimensions, outermost first, held without heap memory.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 6;

  Shape() = default;
  // Throws std::invalid_argument beyond kMaxRank dimensions.
  Shape(std::initializer_list<Extent> sizes);
  // Likewise, and for a negative size; for a dataset's input_shape().
  explicit Shape(std::span<const std::int64_t> sizes);

  [[nodiscard]] std::size_t rank() const { return rank_; }
  // The size of dimension `i`; the caller keeps `i` below rank().
  [[nodiscard]] std::size_t operator[](std::size_t i) const { return sizes_[i]; }
  // All sizes, outermost first.
  [[nodiscard]] std::span<const std::size_t> sizes() const { return {sizes_.data(), rank_}; }
  // The product of dimensions `begin` to `end` - 1, 1 of none; the caller keeps `end` within
  // rank().
  [[nodiscard]] std::size_t product(std::size_t begin, std::size_t end) const;
  // The same shape with another size of dimension `i`; the caller keeps `i` below rank().
  [[nodiscard]] Shape with(std::size_t i, std::size_t size) const;
  // The same shape with one more dimension, the innermost. Throws as the constructor does.
  [[nodiscard]] Shape appended(std::size_t size) const;
  // The number of elements; 1 for rank 0, a scalar. Throws std::invalid_argument if their bytes
  // cannot be counted.
  [[nodiscard]] std::size_t count() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  static void check_rank(std::size_t rank);

  std::array<std::size_t, kMaxRank> sizes_{};  // 0 beyond rank_
  std::size_t rank_ = 0;
};

// "[64, 784]".
[[nodiscard]] std::string to_string(const Shape& shape);

// The first dimension as rows, all others together as columns. Throws std::invalid_argument for a
// scalar.
[[nodiscard]] MatrixShape as_matrix(const Shape& shape);
// All dimensions but the last together as rows, the last one as columns. Throws as as_matrix().
[[nodiscard]] MatrixShape as_rows(const Shape& shape);

// Whether `part` is the last dimensions of `whole`, of which a scalar has none.
[[nodiscard]] bool is_tail(const Shape& part, const Shape& whole);

}  // namespace ddp::nn
