// SPDX-License-Identifier: MIT
#include "ddp/kernels/embedding.h"

#include <stdexcept>

#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

void check_weight(const Shape& weight) {
  if (weight.rank() == 2) return;
  throw std::invalid_argument("[nn] embedding: the weight is " + to_string(weight) +
                              ", expected [count, width]");
}

}  // namespace

Variable embedding(Tape& tape, const Tensor& indices, const Variable& weight) {
  check_weight(weight.shape());
  Context& context = tape.context();
  const MatrixShape table = as_matrix(weight.shape());
  Tensor y = context.empty(indices.shape().appended(table.columns), weight.value().dtype());
  context.run(cpu::embedding_forward, cu::embedding_forward, weight.buffer(), indices.buffer(),
              y.buffer(), table);
  const auto backward = [&context, indices, table](const Buffer& grad_y,
                                                   const GradientTarget& target) {
    context.run(cpu::embedding_backward, cu::embedding_backward, grad_y, indices.buffer(), target,
                table);
  };
  return tape.record(std::move(y), Edge{weight, backward});
}

}  // namespace ddp::nn
