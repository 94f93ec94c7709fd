// SPDX-License-Identifier: MIT
#include "ddp/kernels/avg_pool2d.h"

#include "ddp/nn/ops.h"
#include "ddp/nn/ops/image.h"

namespace ddp::nn {
namespace {

// Runs the kernels of `shape`, of either kind.
template <class PoolShape>
Variable average(Tape& tape, const Variable& x, const PoolShape& shape, const Size2d& output) {
  using Forward = void(const Buffer&, const Buffer&, const PoolShape&);
  using Backward = void(const Buffer&, const GradientTarget&, const PoolShape&);
  using CudaForward = void(const Buffer&, const Buffer&, const PoolShape&, Stream);
  using CudaBackward = void(const Buffer&, const GradientTarget&, const PoolShape&, Stream);
  constexpr Forward* kForward = cpu::avg_pool2d_forward;
  constexpr CudaForward* kCudaForward = cu::avg_pool2d_forward;
  Context& context = tape.context();
  Tensor y =
      context.empty({x.shape()[0], x.shape()[1], output.height, output.width}, x.value().dtype());
  context.run_any_float(kForward, kCudaForward, x.buffer(), y.buffer(), shape);
  const auto backward = [&context, shape](const Buffer& grad_y, const GradientTarget& target) {
    constexpr Backward* kBackward = cpu::avg_pool2d_backward;
    constexpr CudaBackward* kCudaBackward = cu::avg_pool2d_backward;
    context.run_any_float(kBackward, kCudaBackward, grad_y, target, shape);
  };
  return tape.record(std::move(y), Edge{x, backward});
}

}  // namespace

Variable avg_pool2d(Tape& tape, const Variable& x, const Size2d& kernel, const Size2d& stride,
                    const Size2d& padding) {
  const Shape& in = x.shape();
  require_image("avg_pool2d", in);
  const Pool2dShape shape{in[0] * in[1], {in[2], in[3]}, kernel, stride, padding};
  return average(tape, x, shape, shape.output());
}

Variable adaptive_avg_pool2d(Tape& tape, const Variable& x, const Size2d& output) {
  const Shape& in = x.shape();
  require_image("adaptive_avg_pool2d", in);
  return average(tape, x, AdaptivePool2dShape{in[0] * in[1], {in[2], in[3]}, output}, output);
}

}  // namespace ddp::nn
