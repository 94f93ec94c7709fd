// SPDX-License-Identifier: MIT
#include "ddp/nn/shape.h"

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>

namespace ddp::nn {

void Extent::refuse(std::ptrdiff_t size) {
  throw std::invalid_argument("[nn] a shape with a dimension of size " + std::to_string(size));
}

Shape::Shape(std::initializer_list<Extent> sizes) : rank_(sizes.size()) {
  if (rank_ > kMaxRank) {
    throw std::invalid_argument("[nn] a shape of " + std::to_string(rank_) +
                                " dimensions, at most " + std::to_string(kMaxRank) +
                                " are supported");
  }
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

Shape Shape::with(std::size_t i, std::size_t size) const {
  Shape shape = *this;
  shape.sizes_[i] = size;
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

}  // namespace ddp::nn
