// SPDX-License-Identifier: MIT
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {

Variable cast(Tape& tape, const Variable& x, DType dtype) {
  Context& context = tape.context();
  Tensor y = context.empty(x.shape(), dtype);
  ddp::cast(x.buffer(), y.buffer(), context.stream());
  const auto backward = [&context](const Buffer& grad_y, const GradientTarget& target) {
    if (target.mode == WriteMode::kOverwrite) {
      return ddp::cast(grad_y, target.buffer, context.stream());
    }
    const Tensor grad = context.empty({grad_y.count}, target.buffer.dtype);
    ddp::cast(grad_y, grad.buffer(), context.stream());
    reduce(grad.buffer(), target.buffer, ReduceOp::kSum, context.stream());
  };
  return tape.record(std::move(y), Edge{x, backward});
}

}  // namespace ddp::nn
