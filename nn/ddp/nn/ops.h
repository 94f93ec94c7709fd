// SPDX-License-Identifier: MIT
//
// Operations on variables. Each throws std::invalid_argument if shapes, dtypes or devices disagree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "ddp/kernels/channel_moments.h"
#include "ddp/nn/statistics_reducer.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

// x (... x in) times weight (out x in) transposed, plus bias (out), if there is one: ... x out.
[[nodiscard]] Variable linear(Tape& tape, const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias = {});

// Matrix products: a (... x m x k) times b (... x k x n), with equal dimensions before the last
// two.
[[nodiscard]] Variable matmul(Tape& tape, const Variable& a, const Variable& b);

struct Conv2dOptions {
  Size2d stride{1, 1};
  Size2d padding{0, 0};    // zeros, on both sides
  std::size_t groups = 1;  // of channels; each group sees only itself
};

// x: n x in x height x width, weight: out x in / groups x kernel, bias: out. The cross-correlation
// of torch.nn.functional.conv2d; returns n x out x output size.
[[nodiscard]] Variable conv2d(Tape& tape, const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias,
                              const Conv2dOptions& options = {});

struct ConvTranspose2dOptions {
  Size2d stride{1, 1};
  Size2d padding{0, 0};         // removed on both sides
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
// at most half of the kernel, counts as smaller than any element. The gradient goes to the first of
// equal elements.
[[nodiscard]] Variable max_pool2d(Tape& tape, const Variable& x, const Size2d& kernel,
                                  const Size2d& stride, const Size2d& padding = {0, 0});

// The mean of each window. Padding counts as zeros, as is PyTorch's default.
[[nodiscard]] Variable avg_pool2d(Tape& tape, const Variable& x, const Size2d& kernel,
                                  const Size2d& stride, const Size2d& padding = {0, 0});

// The means of output.height x output.width windows that cover x evenly, and overlap if its size is
// not a multiple: torch.nn.functional.adaptive_avg_pool2d.
[[nodiscard]] Variable adaptive_avg_pool2d(Tape& tape, const Variable& x, const Size2d& output);

// Every pixel becomes a block of scale.height x scale.width equal pixels: torch.nn.Upsample with an
// integer scale_factor.
[[nodiscard]] Variable upsample_nearest2d(Tape& tape, const Variable& x, const Size2d& scale);

// Converts the elements; the gradient is converted back.
[[nodiscard]] Variable cast(Tape& tape, const Variable& x, DType dtype);

// Returns n x the number of elements of a sample, without a copy.
[[nodiscard]] Variable flatten(Tape& tape, const Variable& x);

// Element-wise functions, which have torch's names, and its gradients where there is a kink.
[[nodiscard]] Variable abs(Tape& tape, const Variable& x);
[[nodiscard]] Variable clamp(Tape& tape, const Variable& x, double low, double high);
[[nodiscard]] Variable exp(Tape& tape, const Variable& x);
[[nodiscard]] Variable gelu(Tape& tape, const Variable& x);
[[nodiscard]] Variable gelu_tanh(Tape& tape, const Variable& x);  // gelu(approximate="tanh")
[[nodiscard]] Variable leaky_relu(Tape& tape, const Variable& x, double slope = 0.01);
[[nodiscard]] Variable log(Tape& tape, const Variable& x);
[[nodiscard]] Variable relu(Tape& tape, const Variable& x);
[[nodiscard]] Variable sigmoid(Tape& tape, const Variable& x);
[[nodiscard]] Variable silu(Tape& tape, const Variable& x);
[[nodiscard]] Variable softplus(Tape& tape, const Variable& x);
[[nodiscard]] Variable sqrt(Tape& tape, const Variable& x);
[[nodiscard]] Variable square(Tape& tape, const Variable& x);
[[nodiscard]] Variable tanh(Tape& tape, const Variable& x);

// a + b, a - b, a * b and a / b, element-wise; the shapes must be equal. Only add() takes a b that
// lacks the first dimensions of a, and adds it to each part of that shape.
[[nodiscard]] Variable add(Tape& tape, const Variable& a, const Variable& b);
[[nodiscard]] Variable sub(Tape& tape, const Variable& a, const Variable& b);
[[nodiscard]] Variable mul(Tape& tape, const Variable& a, const Variable& b);
[[nodiscard]] Variable div(Tape& tape, const Variable& a, const Variable& b);
// With a number for each element.
[[nodiscard]] Variable add(Tape& tape, const Variable& x, double term);
[[nodiscard]] Variable mul(Tape& tape, const Variable& x, double factor);

// The sum of each sample, that is of all dimensions but the first: n x ... to n. The sums of this
// section are computed in float64.
[[nodiscard]] Variable row_sums(Tape& tape, const Variable& x);
// Of all elements: a scalar. Without elements the mean is 0, as a rank's loss without samples must
// be.
[[nodiscard]] Variable sum(Tape& tape, const Variable& x);
[[nodiscard]] Variable mean(Tape& tape, const Variable& x);

// x with two dimensions exchanged: torch.transpose, but copied.
[[nodiscard]] Variable transpose(Tape& tape, const Variable& x, std::size_t dimension0,
                                 std::size_t dimension1);

// The channels of a, then those of b: n x (channels of both) x further dimensions, which must be
// equal.
[[nodiscard]] Variable concat(Tape& tape, const Variable& a, const Variable& b);

// The elements start to start + length - 1 of dimension 0 (rows) or 1 (channels), copied:
// torch.narrow.
[[nodiscard]] Variable narrow(Tape& tape, const Variable& x, std::size_t dimension,
                              std::size_t start, std::size_t length);

// Batch normalisation of x (n x channels x further dimensions) by the mean and the biased variance
// of each channel over the batch:
//   y = (x - mean) / sqrt(variance + eps) * weight + bias
// weight and bias have one element per channel; empty ones mean ones and zeros.
// std::invalid_argument unless eps, here and below, is finite and 0 or above, and the momentum
// between 0 and 1.
struct BatchNormTraining {
  double eps = 1e-5;
  // If given, these are updated with the batch's statistics (track_statistics() of
  // ddp/kernels/channel_moments.h). Without momentum they are averages over all batches.
  std::optional<RunningStatistics> running = {};
  std::optional<double> momentum = 0.1;
  // For a batch that is a part of a larger one; null: x is the whole batch. A whole batch with one
  // element per channel has no variance: std::invalid_argument, for all of its parts.
  std::shared_ptr<StatisticsReducer> reducer = nullptr;
};
[[nodiscard]] Variable batch_norm(Tape& tape, const Variable& x, const Variable& weight,
                                  const Variable& bias, const BatchNormTraining& options);

// Batch normalisation by given statistics, which are constants.
[[nodiscard]] Variable batch_norm_inference(Tape& tape, const Variable& x, const Variable& weight,
                                            const Variable& bias, const Tensor& mean,
                                            const Tensor& variance, double eps);

// Layer normalisation over the last dimensions of x, those that weight and bias have: by the mean
// and the biased variance of their elements,
//   y = (x - mean) / sqrt(variance + eps) * weight + bias
[[nodiscard]] Variable layer_norm(Tape& tape, const Variable& x, const Variable& weight,
                                  const Variable& bias, double eps = 1e-5);

// exp(x) divided by its sum over the last dimension.
[[nodiscard]] Variable softmax(Tape& tape, const Variable& x);
// Its logarithm, which is finite where a probability is so small that softmax() gives 0.
[[nodiscard]] Variable log_softmax(Tape& tape, const Variable& x);

// The rows of `weight` (count x width) with these indices, int64 of any shape: that shape x width.
// An index outside its range throws on the CPU; on CUDA its row is NaN.
[[nodiscard]] Variable embedding(Tape& tape, const Tensor& indices, const Variable& weight);

struct AttentionOptions {
  bool is_causal = false;   // position i sees positions 0 to i; as many queries as keys are needed
  double dropout_p = 0;     // of an attention weight
  std::uint64_t layer = 0;  // of the dropout, as for dropout()
};

// softmax(q k' / sqrt(width)) v for q (... x queries x width), k (... x keys x width) and v (... x
// keys x any width), with equal dimensions before the last two: n x heads, usually. It keeps the
// attention weights (queries x keys) for the backward pass.
[[nodiscard]] Variable scaled_dot_product_attention(Tape& tape, const Variable& q,
                                                    const Variable& k, const Variable& v,
                                                    const AttentionOptions& options = {});

// Drops each element of x (sets it to 0) with that probability, and divides the others by 1 -
// probability. The choice is a function of the tape's random key and of `layer`.
[[nodiscard]] Variable dropout(Tape& tape, const Variable& x, double probability,
                               std::uint64_t layer);

// Standard normal numbers, torch.randn: a function of the tape's random key, of `name` and of the
// element's place in the global batch, so ranks draw what one rank would. The host makes them, and
// on CUDA waits for the copy.
[[nodiscard]] Tensor normal(Tape& tape, const Shape& shape, DType dtype, std::string_view name);

// Mean over the rows of -log softmax(logits)[label]: a scalar, 0 for an empty batch. logits is n x
// classes, labels are int64 in [0, classes). A label out of range throws on the CPU; on CUDA the
// loss is NaN. With label smoothing s (0 to 1) the label's weight is 1 - s, plus s / classes for
// every class.
[[nodiscard]] Variable softmax_cross_entropy(Tape& tape, const Variable& logits,
                                             const Tensor& labels, double label_smoothing = 0);

// Mean over all elements of (x - target)^2: a scalar, 0 for an empty batch.
[[nodiscard]] Variable mse_loss(Tape& tape, const Variable& x, const Tensor& target);

// Mean over all elements of the binary cross-entropy of sigmoid(logits), as in
// torch.nn.BCEWithLogitsLoss: a scalar, 0 for an empty batch. `target` has the logits' shape and
// values from 0 to 1; its positive part is weighted by pos_weight.
[[nodiscard]] Variable bce_with_logits(Tape& tape, const Variable& logits, const Tensor& target,
                                       double pos_weight = 1);

// The number of rows whose label is one of the k largest logits, for top-k accuracy: an int64
// scalar on the device. Of equal logits the first one counts as the largest.
[[nodiscard]] Tensor count_correct(Context& context, const Tensor& logits, const Tensor& labels,
                                   std::size_t k = 1);

// {intersection, union} (int64) of the elements whose logit is positive and those whose target, of
// the same type, is at least 0.5: see ddp/kernels/mask_overlap.h.
[[nodiscard]] Tensor mask_overlap(Context& context, const Tensor& logits, const Tensor& target);

}  // namespace ddp::nn
