// SPDX-License-Identifier: MIT
#include <stdexcept>
#include <string>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/columns.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

void check_range(const Shape& shape, std::size_t dimension, std::size_t start, std::size_t length) {
  if (dimension < 2 && dimension < shape.rank() && start <= shape[dimension] &&
      length <= shape[dimension] - start) {
    return;
  }
  throw std::invalid_argument("[nn] narrow: x is " + to_string(shape) + ", which has no " +
                              std::to_string(length) + " from " + std::to_string(start) +
                              " on in dimension " + std::to_string(dimension) +
                              ", which must be 0 or 1");
}

// Rows are columns, too: of a matrix whose only row is x.
ColumnRange range_of(const Shape& shape, std::size_t dimension, std::size_t start,
                     std::size_t length) {
  const MatrixShape whole = dimension == 0 ? MatrixShape{1, shape.count()} : as_matrix(shape);
  const std::size_t size = shape[dimension] == 0 ? 0 : whole.columns / shape[dimension];
  return {whole, start * size, length * size};
}

}  // namespace

Variable narrow(Tape& tape, const Variable& x, std::size_t dimension, std::size_t start,
                std::size_t length) {
  check_range(x.shape(), dimension, start, length);
  Context& context = tape.context();
  const ColumnRange range = range_of(x.shape(), dimension, start, length);
  Tensor y = context.empty(x.shape().with(dimension, length), x.value().dtype());
  context.run(cpu::take_columns, cu::take_columns, x.buffer(), GradientTarget{y.buffer()}, range);
  // The rest of x has no gradient from here.
  const auto backward = [&context, range](const Buffer& grad_y, const GradientTarget& target) {
    if (target.mode == WriteMode::kOverwrite) fill(target.buffer, 0, context.stream());
    context.run(cpu::put_columns, cu::put_columns, grad_y,
                GradientTarget{target.buffer, WriteMode::kAccumulate}, range);
  };
  return tape.record(std::move(y), Edge{x, backward});
}

}  // namespace ddp::nn
