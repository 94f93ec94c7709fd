// SPDX-License-Identifier: MIT
//
// Stands in for the CUDA twins in a build without the CUDA toolkit.
#include "ddp/base/error.h"
#include "ddp/kernels/adam.h"
#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/batch_norm.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/binary.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/channel_moments.h"
#include "ddp/kernels/columns.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/cross_entropy.h"
#include "ddp/kernels/dropout.h"
#include "ddp/kernels/embedding.h"
#include "ddp/kernels/gemm.h"
#include "ddp/kernels/grad_norm.h"
#include "ddp/kernels/layer_norm.h"
#include "ddp/kernels/mask_overlap.h"
#include "ddp/kernels/max_pool2d.h"
#include "ddp/kernels/pointwise_loss.h"
#include "ddp/kernels/row_sums.h"
#include "ddp/kernels/sgd.h"
#include "ddp/kernels/softmax.h"
#include "ddp/kernels/transpose.h"
#include "ddp/kernels/unary.h"
#include "ddp/kernels/upsample_nearest2d.h"

namespace ddp::cu {
namespace {

[[noreturn]] void refuse() { throw CudaError("this build of libddp has no CUDA support"); }

}  // namespace

struct Blas::Library {};
Blas::Blas(Device, Float32Precision) { refuse(); }
Blas::Blas(Blas&&) noexcept = default;
Blas& Blas::operator=(Blas&&) noexcept = default;
Blas::~Blas() = default;

void gemm(const Buffer&, const Buffer&, const Buffer&, const GemmShape&, const GemmOptions&, Blas&,
          Stream) {
  refuse();
}
void gemm_batched(const Buffer&, const Buffer&, const Buffer&, const GemmShape&, const GemmOptions&,
                  Blas&, Stream) {
  refuse();
}
std::unique_ptr<Conv2dBackend> make_cudnn_conv2d(Device, Float32Precision) { refuse(); }
std::unique_ptr<Conv2dBackend> make_gemm_conv2d(Device, Blas&) { refuse(); }
void conv2d_forward(const Buffer&, const Buffer&, const Buffer&, const Buffer&, const Conv2dShape&,
                    Conv2dBackend&, Stream) {
  refuse();
}
void conv2d_grad_input(const Buffer&, const Buffer&, const GradientTarget&, const Conv2dShape&,
                       Conv2dBackend&, Stream) {
  refuse();
}
void conv2d_grad_weight(const Buffer&, const Buffer&, const GradientTarget&, const Conv2dShape&,
                        Conv2dBackend&, Stream) {
  refuse();
}
void channel_bias_add(const Buffer&, const Buffer&, const ChannelShape&, Stream) { refuse(); }
void channel_bias_grad(const Buffer&, const GradientTarget&, const ChannelShape&, Stream) {
  refuse();
}
void max_pool2d_forward(const Buffer&, const Buffer&, const Buffer&, const Pool2dShape&, Stream) {
  refuse();
}
void max_pool2d_backward(const Buffer&, const Buffer&, const GradientTarget&, const Pool2dShape&,
                         Stream) {
  refuse();
}
void channel_moments(const Buffer&, const Buffer&, const ChannelShape&, Stream) { refuse(); }
void merge_moments(const Buffer&, const Buffer&, Stream) { refuse(); }
void moments_to_statistics(const Buffer&, double, const Buffer&, const Buffer&, Stream) {
  refuse();
}
void track_statistics(const Buffer&, std::optional<double>, const RunningStatistics&, Stream) {
  refuse();
}
void variance_to_invstd(const Buffer&, double, const Buffer&, Stream) { refuse(); }
void batch_norm_forward(const Buffer&, const BatchNormOperands&, const Buffer&, const Buffer&,
                        const ChannelShape&, Stream) {
  refuse();
}
void batch_norm_sums(const Buffer&, const Buffer&, const Buffer&, const Buffer&,
                     const ChannelShape&, Stream) {
  refuse();
}
void batch_norm_grad_bias(const Buffer&, const GradientTarget&, Stream) { refuse(); }
void batch_norm_grad_weight(const Buffer&, const Buffer&, const GradientTarget&, Stream) {
  refuse();
}
void batch_norm_terms(const Buffer&, const Buffer&, const Buffer&, const Buffer&, Stream) {
  refuse();
}
void batch_norm_grad_input(const Buffer&, const Buffer&, const BatchNormOperands&, const Buffer&,
                           const GradientTarget&, const ChannelShape&, Stream) {
  refuse();
}
void avg_pool2d_forward(const Buffer&, const Buffer&, const Pool2dShape&, Stream) { refuse(); }
void avg_pool2d_backward(const Buffer&, const GradientTarget&, const Pool2dShape&, Stream) {
  refuse();
}
void avg_pool2d_forward(const Buffer&, const Buffer&, const AdaptivePool2dShape&, Stream) {
  refuse();
}
void avg_pool2d_backward(const Buffer&, const GradientTarget&, const AdaptivePool2dShape&, Stream) {
  refuse();
}
void upsample_nearest2d_forward(const Buffer&, const Buffer&, const Upsample2dShape&, Stream) {
  refuse();
}
void upsample_nearest2d_backward(const Buffer&, const GradientTarget&, const Upsample2dShape&,
                                 Stream) {
  refuse();
}
void unary_forward(const Buffer&, const Buffer&, const UnaryFunction&, Stream) { refuse(); }
void unary_backward(const Buffer&, const Buffer&, const GradientTarget&, const UnaryFunction&,
                    Stream) {
  refuse();
}
void binary(const Buffer&, const Buffer&, const GradientTarget&, const BinaryFunction&, Stream) {
  refuse();
}
void row_sums_forward(const Buffer&, const Buffer&, MatrixShape, Stream) { refuse(); }
void row_sums_backward(const Buffer&, const GradientTarget&, MatrixShape, Stream) { refuse(); }
void mask_overlap(const Buffer&, const Buffer&, const Buffer&, Stream) { refuse(); }
void put_columns(const Buffer&, const GradientTarget&, const ColumnRange&, Stream) { refuse(); }
void take_columns(const Buffer&, const GradientTarget&, const ColumnRange&, Stream) { refuse(); }
void pointwise_loss_forward(const Buffer&, const Buffer&, const PointwiseLossResult&, MatrixShape,
                            const PointwiseLoss&, Stream) {
  refuse();
}
void pointwise_loss_backward(const Buffer&, const Buffer&, const Buffer&, const GradientTarget&,
                             MatrixShape, const PointwiseLoss&, Stream) {
  refuse();
}
void bias_add(const Buffer&, const Buffer&, MatrixShape, Stream) { refuse(); }
void bias_grad(const Buffer&, const GradientTarget&, MatrixShape, Stream) { refuse(); }
void dropout(const Buffer&, const GradientTarget&, const DropoutMask&, MatrixShape, Stream) {
  refuse();
}
void softmax_cross_entropy_forward(const Buffer&, const Buffer&, const CrossEntropyResult&,
                                   MatrixShape, double, Stream) {
  refuse();
}
void softmax_cross_entropy_backward(const Buffer&, const Buffer&, const Buffer&,
                                    const GradientTarget&, MatrixShape, double, Stream) {
  refuse();
}
void count_correct(const Buffer&, const Buffer&, const Buffer&, MatrixShape, std::size_t, Stream) {
  refuse();
}
void softmax_forward(const Buffer&, const Buffer&, MatrixShape, SoftmaxMask, Stream) { refuse(); }
void softmax_backward(const Buffer&, const Buffer&, const GradientTarget&, MatrixShape, Stream) {
  refuse();
}
void log_softmax_forward(const Buffer&, const Buffer&, MatrixShape, Stream) { refuse(); }
void log_softmax_backward(const Buffer&, const Buffer&, const GradientTarget&, MatrixShape,
                          Stream) {
  refuse();
}
void layer_norm_forward(const Buffer&, const Buffer&, const Buffer&, double, const LayerNormResult&,
                        MatrixShape, Stream) {
  refuse();
}
void layer_norm_grad_input(const LayerNormOperands&, const Buffer&, const Buffer&,
                           const GradientTarget&, MatrixShape, Stream) {
  refuse();
}
void layer_norm_grad_weight(const LayerNormOperands&, const Buffer&, const GradientTarget&,
                            MatrixShape, Stream) {
  refuse();
}
void embedding_forward(const Buffer&, const Buffer&, const Buffer&, MatrixShape, Stream) {
  refuse();
}
void embedding_backward(const Buffer&, const Buffer&, const GradientTarget&, MatrixShape, Stream) {
  refuse();
}
void transpose(const Buffer&, const GradientTarget&, const TransposeShape&, Stream) { refuse(); }
void sgd_step(std::span<const SgdTensor>, const SgdStep&, const double*, Stream) { refuse(); }
void adam_step(std::span<const AdamTensor>, const AdamStep&, const double*, Stream) { refuse(); }
void clip_grad_norm(std::span<const Buffer>, double, const double*, const ClippedGradients&,
                    Stream) {
  refuse();
}

}  // namespace ddp::cu
