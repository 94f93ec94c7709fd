// SPDX-License-Identifier: MIT
//
// Two-dimensional convolution in the sense of deep learning: a cross-correlation. All operands are
// NCHW and contiguous: x is batch x in_channels x input, y batch x out_channels x output, the
// weight out_channels x in_channels / groups x kernel. Group g of the output channels sees only
// group g of the input channels; with as many groups as input channels the convolution is
// depthwise.
//
// A Conv2dBackend computes it. CPU: oneDNN, our own loops, or columns and GEMM, whichever is
// fastest for a shape (make_conv2d). CUDA: cuDNN if it can be opened, else columns and cuBLAS.
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
  Size2d padding{0, 0};  // zeros, on both sides
  std::size_t groups = 1;

  // Throws std::invalid_argument if a stride is 0, the kernel is larger than the padded input, or
  // the groups do not divide the channels.
  [[nodiscard]] Size2d output() const;
  [[nodiscard]] Size2d padded_input() const {
    return {input.height + 2 * padding.height, input.width + 2 * padding.width};
  }
  // The convolution of one group.
  [[nodiscard]] Conv2dShape group() const;
  // A 1 x 1 kernel at every pixel: the convolution is a matrix product.
  [[nodiscard]] bool is_pointwise() const {
    return kernel == Size2d{1, 1} && stride == Size2d{1, 1} && padding == Size2d{0, 0};
  }

  // Numbers of elements of the operands.
  [[nodiscard]] std::size_t x_count() const {
    return element_count({batch, in_channels, input.count()});
  }
  [[nodiscard]] std::size_t y_count() const {
    return element_count({batch, out_channels, output().count()});
  }
  [[nodiscard]] std::size_t weight_count() const {
    return element_count({out_channels, in_channels / groups, kernel.count()});
  }

  friend bool operator==(const Conv2dShape&, const Conv2dShape&) = default;
};

}  // namespace ddp

namespace ddp::cpu {

// An implementation of convolutions on the CPU, with its scratch memory. For one thread at a time.
// Its calls are the functions below, with operands that are checked and not empty.
class Conv2dBackend {
 public:
  virtual ~Conv2dBackend() = default;

  virtual void forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
                       const Conv2dShape& shape) = 0;
  virtual void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                          const Conv2dShape& shape) = 0;
  virtual void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                           const Conv2dShape& shape) = 0;
};

// The default: uses the fastest of the backends below for each call. The choice depends on dtype
// and shape; for forward and grad_input it does not depend on the batch size.
[[nodiscard]] std::unique_ptr<Conv2dBackend> make_conv2d();

// Loops whose vectors hold one pixel of several samples (conv2d/conv2d_lanes.h).
[[nodiscard]] std::unique_ptr<Conv2dBackend> make_loop_conv2d();
// Columns (im2col) and GEMM.
[[nodiscard]] std::unique_ptr<Conv2dBackend> make_column_conv2d();
// oneDNN, for float32 only. The library is opened here; null if this build or machine lacks it. Its
// threads are OpenMP's: OMP_NUM_THREADS, else one for each core.
[[nodiscard]] std::unique_ptr<Conv2dBackend> make_onednn_conv2d();

// y[n, o, r, c] = bias[o] + sum over i, h, w of
//     weight[o, i, h, w] * x[n, i, r * stride.height + h - padding.height, ... columns likewise],
// where i runs over the input channels of o's group. A bias without elements means none.
//
// A sample's y and grad_x have the same bits wherever the sample stands in whichever batch, with
// any number of threads. Loops guarantee this by construction, and so do columns, whose products
// gemm_batched computes. oneDNN does not promise it, but its direct convolutions compute each
// sample alone, and kernels_test compares them; what oneDNN would compute by products is left to
// columns.
void conv2d_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
                    const Conv2dShape& shape, Conv2dBackend& backend);
void conv2d_grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                       const Conv2dShape& shape, Conv2dBackend& backend);
// Summed over the batch; zero for an empty one. channel_bias_grad gives the bias' gradient.
void conv2d_grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                        const Conv2dShape& shape, Conv2dBackend& backend);

}  // namespace ddp::cpu

namespace ddp::cu {

// An implementation of convolutions on a device, with its scratch memory. For one thread and one
// stream at a time.
class Conv2dBackend {
 public:
  virtual ~Conv2dBackend() = default;

  // Whether the three calls below take this dtype: always for float32 and float64; for float16 and
  // bfloat16, whose sums are float32, it may depend on the shape.
  [[nodiscard]] virtual bool takes(DType dtype, const Conv2dShape& shape) = 0;

  // As the functions below, without the bias. Operands are checked and not empty.
  virtual void forward(const Buffer& x, const Buffer& weight, const Buffer& y,
                       const Conv2dShape& shape, Stream stream) = 0;
  virtual void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                          const Conv2dShape& shape, Stream stream) = 0;
  virtual void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                           const Conv2dShape& shape, Stream stream) = 0;
};

// cuDNN. Opening the library takes long, so call this when the first convolution comes. Null if
// this build or machine lacks it, or, with a warning, if it is there but does not start. Takes
// 16-bit types, on tensor cores where there are some, for shapes for which it knows algorithms that
// give the same bits each time. Where it knows none for float32 or float64, it warns and uses
// columns and cuBLAS.
[[nodiscard]] std::unique_ptr<Conv2dBackend> make_cudnn_conv2d(
    Device device, Float32Precision precision = Float32Precision::kIeee);
// Columns and cuBLAS, without 16-bit types. `blas` must outlive it; it says how float32 is
// multiplied.
[[nodiscard]] std::unique_ptr<Conv2dBackend> make_gemm_conv2d(Device device, Blas& blas);

void conv2d_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
                    const Conv2dShape& shape, Conv2dBackend& backend, Stream stream);
void conv2d_grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                       const Conv2dShape& shape, Conv2dBackend& backend, Stream stream);
void conv2d_grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                        const Conv2dShape& shape, Conv2dBackend& backend, Stream stream);

}  // namespace ddp::cu
