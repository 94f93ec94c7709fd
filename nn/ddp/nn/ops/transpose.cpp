// SPDX-License-Identifier: MIT
#include "ddp/kernels/transpose.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

// For first < second < shape.rank().
TransposeShape split(const Shape& shape, std::size_t first, std::size_t second) {
  return {.outer = shape.product(0, first),
          .first = shape[first],
          .middle = shape.product(first + 1, second),
          .second = shape[second],
          .inner = shape.product(second + 1, shape.rank())};
}

}  // namespace

Variable transpose(Tape& tape, const Variable& x, std::size_t dimension0, std::size_t dimension1) {
  const auto [first, second] = std::minmax({dimension0, dimension1});
  if (second >= x.shape().rank()) {
    throw std::invalid_argument("[nn] transpose: x is " + to_string(x.shape()) +
                                ", which has no dimension " + std::to_string(second));
  }
  if (first == second) return x;
  Context& context = tape.context();
  const TransposeShape shape = split(x.shape(), first, second);
  Tensor y = context.empty(x.shape().with(first, shape.second).with(second, shape.first),
                           x.value().dtype());
  context.run_any_float(cpu::transpose, cu::transpose, x.buffer(), GradientTarget{y.buffer()},
                        shape);
  const auto backward = [&context, shape](const Buffer& grad_y, const GradientTarget& target) {
    context.run_any_float(cpu::transpose, cu::transpose, grad_y, target, shape.transposed());
  };
  return tape.record(std::move(y), Edge{x, backward});
}

}  // namespace ddp::nn
