// SPDX-License-Identifier: MIT
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/conv2d/conv2d_checks.h"

namespace ddp::cpu {
namespace {

// For a gradient to which no product contributes.
void write_zero(const GradientTarget& target) {
  if (target.mode == WriteMode::kOverwrite) cpu::fill(target.buffer, 0);
}

}  // namespace

void conv2d_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
                    const Conv2dShape& shape, Conv2dBackend& backend) {
  detail::check_conv2d_forward(x, weight, bias, y, shape);
  if (y.count == 0) return;
  if (x.count > 0) return backend.forward(x, weight, bias, y, shape);
  cpu::fill(y, 0);
  if (bias.count == 0) return;
  channel_bias_add(y, bias, {shape.batch, shape.out_channels, shape.output().count()});
}

void conv2d_grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                       const Conv2dShape& shape, Conv2dBackend& backend) {
  detail::check_conv2d_grad_input(weight, grad_y, grad_x.buffer, shape);
  if (grad_x.buffer.count == 0) return;
  if (grad_y.count == 0) return write_zero(grad_x);
  backend.grad_input(weight, grad_y, grad_x, shape);
}

void conv2d_grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                        const Conv2dShape& shape, Conv2dBackend& backend) {
  detail::check_conv2d_grad_weight(x, grad_y, grad_weight.buffer, shape);
  if (grad_weight.buffer.count == 0) return;
  if (x.count == 0 || grad_y.count == 0) return write_zero(grad_weight);
  backend.grad_weight(x, grad_y, grad_weight, shape);
}

}  // namespace ddp::cpu
