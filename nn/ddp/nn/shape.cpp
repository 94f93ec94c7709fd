// SPDX-License-Identifier: MIT
#include "ddp/nn/shape.h"

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>

namespace ddp::nn {

void Shape::check_rank(std::size_t rank) {
  if (rank <= kMaxRank) return;
  throw std::invalid_argument("[nn] a shape of " + std::to_string(rank) + " dimensions, at most " +
                              std::to_string(kMaxRank) + " are supported");
}

Shape::Shape(std::initializer_list<Extent> sizes) : rank_(sizes.size()) {
  check_rank(rank_);
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

Shape Shape::with(std::size_t i, std::size_t size) const {
  Shape shape = *this;
  shape.sizes_[i] = size;
  return shape;
}

Shape Shape::appended(std::size_t size) const {
  check_rank(rank_ + 1);
  Shape shape = *this;
  shape.sizes_[shape.rank_++] = size;
  return shape;
}

std::size_t Shape::count() const {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / sizeof(double);
  const std::span sizes(sizes_.data(), rank_);
  if (std::ranges::find(sizes, std::size_t{0}) != sizes.end()) return 0;
  std::size_t count = 1;
  for (const std::size_t size : sizes) {
    if (size > kMost / count) {
      throw std::invalid_argument("[nn] a tensor of shape " + to_string(*this) +
                                  " has more elements than there can be bytes of memory");
    }
    count *= size;
  }
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

MatrixShape as_matrix(const Shape& shape) {
  if (shape.rank() == 0) throw std::invalid_argument("[nn] a scalar has no rows");
  MatrixShape matrix{shape[0], 1};
  for (std::size_t i = 1; i < shape.rank(); ++i) matrix.columns *= shape[i];
  return matrix;
}

MatrixShape as_rows(const Shape& shape) {
  if (shape.rank() == 0) throw std::invalid_argument("[nn] a scalar has no rows");
  MatrixShape matrix{1, shape[shape.rank() - 1]};
  for (std::size_t i = 0; i + 1 < shape.rank(); ++i) matrix.rows *= shape[i];
  return matrix;
}

bool is_tail(const Shape& part, const Shape& whole) {
  if (part.rank() > whole.rank()) return false;
  const std::size_t first = whole.rank() - part.rank();
  for (std::size_t i = 0; i < part.rank(); ++i) {
    if (part[i] != whole[first + i]) return false;
  }
  return true;
}

}  // namespace ddp::nn
