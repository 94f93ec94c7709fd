// SPDX-License-Identifier: MIT
#include "ddp/kernels/upsample_nearest2d.h"

#include "ddp/nn/ops.h"
#include "ddp/nn/ops/image.h"

namespace ddp::nn {

Variable upsample_nearest2d(Tape& tape, const Variable& x, const Size2d& scale) {
  const Shape& in = x.shape();
  require_image("upsample_nearest2d", in);
  const Upsample2dShape shape{in[0] * in[1], {in[2], in[3]}, scale};
  const Size2d output = shape.output();
  Context& context = tape.context();
  Tensor y = context.empty({in[0], in[1], output.height, output.width}, x.value().dtype());
  context.run(cpu::upsample_nearest2d_forward, cu::upsample_nearest2d_forward, x.buffer(),
              y.buffer(), shape);
  const auto backward = [&context, shape](const Buffer& grad_y, const GradientTarget& target) {
    context.run(cpu::upsample_nearest2d_backward, cu::upsample_nearest2d_backward, grad_y, target,
                shape);
  };
  return tape.record(std::move(y), Edge{x, backward});
}

}  // namespace ddp::nn
