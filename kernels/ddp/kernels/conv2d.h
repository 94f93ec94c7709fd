// SPDX-License-Identifier: MIT
//
// Two-dimensional convolution, as deep learning calls it: a cross-correlation. Everything is NCHW
// and contiguous: x is batch x in_channels x input, y batch x out_channels x output, the weight
// out_channels x in_channels x kernel.
//
// CPU: loops of our own, whose vectors hold a pixel of several samples (detail/conv2d_lanes.h).
// CUDA: cuDNN where it can be opened, else columns and cuBLAS (Conv2dBackend).
#pragma once

#include <cstddef>
#include <memory>

#include "ddp/base/stream.h"
#include "ddp/kernels/gemm.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

struct Conv2dShape {
  std::size_t batch = 0;
  std::size_t in_channels = 0;
  std::size_t out_channels = 0;
  Size2d input;
  Size2d kernel;
  Size2d stride{1, 1};
  Size2d padding{0, 0};  // zeros on either side

  // Throws std::invalid_argument if a stride is 0 or the kernel is larger than the padded input.
  [[nodiscard]] Size2d output() const { return windows("conv2d", padded_input(), kernel, stride); }
  [[nodiscard]] Size2d padded_input() const {
    return {input.height + 2 * padding.height, input.width + 2 * padding.width};
  }

  // Elements of the operands.
  [[nodiscard]] std::size_t x_count() const { return batch * in_channels * input.count(); }
  [[nodiscard]] std::size_t y_count() const { return batch * out_channels * output().count(); }
  [[nodiscard]] std::size_t weight_count() const {
    return out_channels * in_channels * kernel.count();
  }

  friend bool operator==(const Conv2dShape&, const Conv2dShape&) = default;
};

}  // namespace ddp

namespace ddp::cpu {

// y[n, o, r, c] = bias[o] + sum over i, h, w of
//     weight[o, i, h, w] * x[n, i, r * stride.height + h - padding.height, ... columns likewise].
// A sample's result has the same bits wherever in whichever batch the sample stands.
void conv2d_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
                    const Conv2dShape& shape);
void conv2d_grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                       const Conv2dShape& shape);
// Summed over the batch; zero for an empty one, as is the bias'.
void conv2d_grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                        const Conv2dShape& shape);
// grad_bias[o] = sum over n, r, c of grad_y[n, o, r, c].
void conv2d_grad_bias(const Buffer& grad_y, const GradientTarget& grad_bias,
                      const Conv2dShape& shape);

}  // namespace ddp::cpu

namespace ddp::cu {

// What convolutions on a device run with, its scratch memory included. For one thread and one
// stream at a time.
class Conv2dBackend {
 public:
  virtual ~Conv2dBackend() = default;

  // The products of the twins below, without the bias. The operands are checked and not empty.
  virtual void forward(const Buffer& x, const Buffer& weight, const Buffer& y,
                       const Conv2dShape& shape, Stream stream) = 0;
  virtual void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                          const Conv2dShape& shape, Stream stream) = 0;
  virtual void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                           const Conv2dShape& shape, Stream stream) = 0;
};

// cuDNN is opened here, so call it when the first convolution comes: loading it takes long. Null if
// this build or this machine lacks it; throws CudaError if it is there but fails.
[[nodiscard]] std::unique_ptr<Conv2dBackend> make_cudnn_conv2d(Device device);
// Columns and cuBLAS; `blas` outlives it.
[[nodiscard]] std::unique_ptr<Conv2dBackend> make_gemm_conv2d(Device device, Blas& blas);

void conv2d_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
                    const Conv2dShape& shape, Conv2dBackend& backend, Stream stream);
void conv2d_grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                       const Conv2dShape& shape, Conv2dBackend& backend, Stream stream);
void conv2d_grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                        const Conv2dShape& shape, Conv2dBackend& backend, Stream stream);
void conv2d_grad_bias(const Buffer& grad_y, const GradientTarget& grad_bias,
                      const Conv2dShape& shape, Stream stream);

}  // namespace ddp::cu
