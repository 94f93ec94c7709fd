// SPDX-License-Identifier: MIT
#include <stdexcept>

#include "ddp/kernels/columns.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

Shape joined_shape(const Shape& a, const Shape& b) {
  const bool fits = a.rank() >= 2 && b.rank() >= 2 && a.with(1, b[1]) == b;
  if (fits) return a.with(1, a[1] + b[1]);
  throw std::invalid_argument("[nn] concat: a is " + to_string(a) + ", b " + to_string(b) +
                              ", expected shapes that differ in channels alone");
}

}  // namespace

Variable concat(Tape& tape, const Variable& a, const Variable& b) {
  if (must_promote(a, b)) return concat(tape, widened(tape, a), widened(tape, b));
  const Shape shape = joined_shape(a.shape(), b.shape());
  Context& context = tape.context();
  Tensor y = context.empty(shape, a.value().dtype());
  const MatrixShape whole = as_matrix(shape);
  const std::size_t columns_of_a = as_matrix(a.shape()).columns;
  const ColumnRange left{whole, 0, columns_of_a};
  const ColumnRange right{whole, columns_of_a, whole.columns - columns_of_a};
  context.run(cpu::put_columns, cu::put_columns, a.buffer(), GradientTarget{y.buffer()}, left);
  context.run(cpu::put_columns, cu::put_columns, b.buffer(), GradientTarget{y.buffer()}, right);
  const auto backward_to = [&context](const ColumnRange& range) {
    return [&context, range](const Buffer& grad_y, const GradientTarget& target) {
      context.run(cpu::take_columns, cu::take_columns, grad_y, target, range);
    };
  };
  return tape.record(std::move(y), Edge{a, backward_to(left)}, Edge{b, backward_to(right)});
}

}  // namespace ddp::nn
