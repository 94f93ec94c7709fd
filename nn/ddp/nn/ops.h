// SPDX-License-Identifier: MIT
//
// Operations on variables. Each throws std::invalid_argument if shapes, dtypes or devices disagree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "ddp/kernels/channel_moments.h"
#include "ddp/nn/statistics_reducer.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

// x (n x in) times weight (out x in) transposed, plus bias (out): n x out.
[[nodiscard]] Variable linear(Tape& tape, const Variable& x, const Variable& weight,
                              const Variable& bias);

struct Conv2dOptions {
  Size2d stride{1, 1};
  Size2d padding{0, 0};    // zeros on either side
  std::size_t groups = 1;  // that channels are divided into; each sees itself only
};

// x: n x in x height x width, weight: out x in / groups x kernel, bias: out. The cross-correlation
// of torch.nn.functional.conv2d: n x out x what the strides leave.
[[nodiscard]] Variable conv2d(Tape& tape, const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias,
                              const Conv2dOptions& options = {});

struct ConvTranspose2dOptions {
  Size2d stride{1, 1};
  Size2d padding{0, 0};         // taken away on either side
  Size2d output_padding{0, 0};  // added below and to the right; smaller than the stride
  std::size_t groups = 1;
};

// x: n x in x height x width, weight: in x out / groups x kernel, bias: out. As
// torch.nn.functional.conv_transpose2d: n x out x (height - 1) * stride - 2 * padding + kernel +
// output_padding, the width likewise.
[[nodiscard]] Variable conv_transpose2d(Tape& tape, const Variable& x, const Variable& weight,
                                        const std::optional<Variable>& bias,
                                        const ConvTranspose2dOptions& options = {});

// The largest element of each window of each channel of x (n x channels x height x width). Padding,
// at most half of the kernel, is smaller than any element. A gradient goes to the first of equals.
[[nodiscard]] Variable max_pool2d(Tape& tape, const Variable& x, const Size2d& kernel,
                                  const Size2d& stride, const Size2d& padding = {0, 0});

// The mean of each window. Padding counts as zeros, as by default in PyTorch.
[[nodiscard]] Variable avg_pool2d(Tape& tape, const Variable& x, const Size2d& kernel,
                                  const Size2d& stride, const Size2d& padding = {0, 0});

// The means of output.height x output.width windows that cover x evenly (and overlap where its size
// is no multiple): torch.nn.functional.adaptive_avg_pool2d.
[[nodiscard]] Variable adaptive_avg_pool2d(Tape& tape, const Variable& x, const Size2d& output);

// Every pixel becomes a block of scale.height x scale.width equal ones: torch.nn.Upsample with an
// integer scale_factor.
[[nodiscard]] Variable upsample_nearest2d(Tape& tape, const Variable& x, const Size2d& scale);

// The elements converted; the gradient is converted back.
[[nodiscard]] Variable cast(Tape& tape, const Variable& x, DType dtype);

// n x the elements of a sample. Nothing is copied.
[[nodiscard]] Variable flatten(const Variable& x);

// max(x, 0), element-wise.
[[nodiscard]] Variable relu(Tape& tape, const Variable& x);

// 1 / (1 + exp(-x)), element-wise.
[[nodiscard]] Variable sigmoid(Tape& tape, const Variable& x);

// a + b, element-wise, of one shape.
[[nodiscard]] Variable add(Tape& tape, const Variable& a, const Variable& b);

// The channels of a, then those of b: n x (channels of both) x what follows, which is equal.
[[nodiscard]] Variable concat(Tape& tape, const Variable& a, const Variable& b);

// Batch normalisation of x (n x channels x anything) by the mean and the biased variance of each
// channel over the batch:
//   y = (x - mean) / sqrt(variance + eps) * weight + bias
// weight and bias have one element a channel, or none for ones and zeros.
struct BatchNormTraining {
  double eps = 1e-5;
  // Follow the batch's statistics, as track_statistics() of ddp/kernels/channel_moments.h says, if
  // given. Without momentum they are averages over all batches.
  std::optional<RunningStatistics> running = {};
  std::optional<double> momentum = 0.1;
  // For a part of a batch; null: x is the whole. A whole batch of one element a channel has no
  // variance: std::invalid_argument.
  std::shared_ptr<StatisticsReducer> reducer = nullptr;
};
[[nodiscard]] Variable batch_norm(Tape& tape, const Variable& x, const Variable& weight,
                                  const Variable& bias, const BatchNormTraining& options);

// The same by given statistics, which are constants.
[[nodiscard]] Variable batch_norm_inference(Tape& tape, const Variable& x, const Variable& weight,
                                            const Variable& bias, const Tensor& mean,
                                            const Tensor& variance, double eps);

// x with each element of the rows dropped (0) with that probability, and the others divided by 1 -
// probability. What is dropped is a function of the tape's random key and of `layer`.
[[nodiscard]] Variable dropout(Tape& tape, const Variable& x, double probability,
                               std::uint64_t layer);

// Mean over the rows of -log softmax(logits)[label]: a scalar, 0 for an empty batch. logits is
// n x classes, labels are int64 in [0, classes). CUDA cannot throw for a bad label: the loss is
// NaN. With label smoothing s (0 to 1) the label gets 1 - s, and every class s / classes.
[[nodiscard]] Variable softmax_cross_entropy(Tape& tape, const Variable& logits,
                                             const Tensor& labels, double label_smoothing = 0);

// Mean over all elements of (x - target)^2: a scalar, 0 for an empty batch.
[[nodiscard]] Variable mse_loss(Tape& tape, const Variable& x, const Tensor& target);

// Mean over all elements of the binary cross-entropy of sigmoid(logits), as
// torch.nn.BCEWithLogitsLoss: a scalar, 0 for an empty batch. `target` has the logits' shape and
// values from 0 to 1; its positive part counts pos_weight times.
[[nodiscard]] Variable bce_with_logits(Tape& tape, const Variable& logits, const Tensor& target,
                                       double pos_weight = 1);

// Rows whose largest logit is that of their label: an int64 scalar on the device.
[[nodiscard]] Tensor count_correct(Context& context, const Tensor& logits, const Tensor& labels);

// {intersection, union} (int64) of where the logits are positive and where the target, of their
// type, is at least 0.5: see ddp/kernels/mask_overlap.h.
[[nodiscard]] Tensor mask_overlap(Context& context, const Tensor& logits, const Tensor& target);

}  // namespace ddp::nn
