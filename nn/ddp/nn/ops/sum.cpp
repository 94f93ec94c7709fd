// SPDX-License-Identifier: MIT
#include "ddp/kernels/row_sums.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

Variable row_sums_as(Tape& tape, const Variable& x, MatrixShape rows, const Shape& shape) {
  if (must_widen(x)) return row_sums_as(tape, widened(tape, x), rows, shape);
  Context& context = tape.context();
  Tensor sums = context.empty(shape, x.value().dtype());
  context.run(cpu::row_sums_forward, cu::row_sums_forward, x.buffer(), sums.buffer(), rows);
  const auto backward = [&context, rows](const Buffer& grad_sums, const GradientTarget& target) {
    context.run(cpu::row_sums_backward, cu::row_sums_backward, grad_sums, target, rows);
  };
  return tape.record(std::move(sums), Edge{x, backward});
}

}  // namespace

Variable row_sums(Tape& tape, const Variable& x) {
  const MatrixShape rows = as_matrix(x.shape());
  return row_sums_as(tape, x, rows, {rows.rows});
}

// In two steps where that is possible: a GPU sums rows in parallel.
Variable sum(Tape& tape, const Variable& x) {
  if (x.shape().rank() > 1) return sum(tape, row_sums(tape, x));
  return row_sums_as(tape, x, {1, x.value().count()}, {});
}

Variable mean(Tape& tape, const Variable& x) {
  const std::size_t count = x.value().count();
  return mul(tape, sum(tape, x), count == 0 ? 0 : 1 / static_cast<double>(count));
}

}  // namespace ddp::nn
