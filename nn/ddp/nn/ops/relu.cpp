// SPDX-License-Identifier: MIT
#include "ddp/kernels/relu.h"

#include "ddp/nn/ops.h"

namespace ddp::nn {

Variable relu(Tape& tape, const Variable& x) {
  Context& context = tape.context();
  Tensor y = context.empty(x.shape(), x.value().dtype());
  context.run(cpu::relu_forward, cu::relu_forward, x.buffer(), y.buffer());
  const auto backward = [&context, y](const Buffer& grad_y, const GradientTarget& target) {
    context.run(cpu::relu_backward, cu::relu_backward, y.buffer(), grad_y, target);
  };
  return tape.record(y, Edge{x, backward});
}

}  // namespace ddp::nn
