// SPDX-License-Identifier: MIT
#include "ddp/kernels/max_pool2d.h"

#include "ddp/nn/ops.h"
#include "ddp/nn/ops/image.h"

namespace ddp::nn {

Variable max_pool2d(Tape& tape, const Variable& x, const Size2d& kernel, const Size2d& stride,
                    const Size2d& padding) {
  const Shape& in = x.shape();
  require_image("max_pool2d", in);
  const Pool2dShape shape{in[0] * in[1], {in[2], in[3]}, kernel, stride, padding};
  const Size2d output = shape.output();
  Context& context = tape.context();
  Tensor y = context.empty({in[0], in[1], output.height, output.width}, x.value().dtype());
  const Tensor indices = context.empty(y.shape(), DType::kInt32);
  context.run_any_float(cpu::max_pool2d_forward, cu::max_pool2d_forward, x.buffer(), y.buffer(),
                        indices.buffer(), shape);

  const auto backward = [&context, indices, shape](const Buffer& grad_y,
                                                   const GradientTarget& target) {
    context.run_any_float(cpu::max_pool2d_backward, cu::max_pool2d_backward, grad_y,
                          indices.buffer(), target, shape);
  };
  return tape.record(std::move(y), Edge{x, backward});
}

}  // namespace ddp::nn
