// SPDX-License-Identifier: MIT
#include "ddp/kernels/sigmoid.h"

#include "ddp/nn/ops.h"

namespace ddp::nn {

Variable sigmoid(Tape& tape, const Variable& x) {
  Context& context = tape.context();
  Tensor y = context.empty(x.shape(), x.value().dtype());
  context.run(cpu::sigmoid_forward, cu::sigmoid_forward, x.buffer(), y.buffer());
  const auto backward = [&context, y](const Buffer& grad_y, const GradientTarget& target) {
    context.run(cpu::sigmoid_backward, cu::sigmoid_backward, y.buffer(), grad_y, target);
  };
  return tape.record(y, Edge{x, backward});
}

}  // namespace ddp::nn
