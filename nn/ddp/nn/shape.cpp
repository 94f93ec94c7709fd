// SPDX-License-Identifier: MIT
#include "ddp/nn/shape.h"

#include <algorithm>
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

Shape::Shape(std::span<const std::int64_t> sizes) : rank_(sizes.size()) {
  check_rank(rank_);
  for (std::size_t i = 0; i < rank_; ++i) {
    if (sizes[i] < 0) {
      throw std::invalid_argument("[nn] a shape whose dimension " + std::to_string(i) + " has " +
                                  std::to_string(sizes[i]) + " elements");
    }
    sizes_[i] = static_cast<std::size_t>(sizes[i]);
  }
}

std::size_t Shape::product(std::size_t begin, std::size_t end) const {
  std::size_t product = 1;
  for (std::size_t i = begin; i < end; ++i) product *= sizes_[i];
  return product;
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

std::size_t Shape::count() const { return element_count(sizes()); }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

MatrixShape as_matrix(const Shape& shape) {
  if (shape.rank() == 0) throw std::invalid_argument("[nn] a scalar has no rows");
  return {shape[0], shape.product(1, shape.rank())};
}

MatrixShape as_rows(const Shape& shape) {
  if (shape.rank() == 0) throw std::invalid_argument("[nn] a scalar has no rows");
  const std::size_t last = shape.rank() - 1;
  return {shape.product(0, last), shape[last]};
}

bool is_tail(const Shape& part, const Shape& whole) {
  return part.rank() <= whole.rank() &&
         std::ranges::equal(part.sizes(), whole.sizes().last(part.rank()));
}

}  // namespace ddp::nn
