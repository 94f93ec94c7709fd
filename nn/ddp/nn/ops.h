// SPDX-License-Identifier: MIT
//
// Operations on variables. Each throws std::invalid_argument if shapes, dtypes or devices disagree.
#pragma once

#include "ddp/nn/tape.h"

namespace ddp::nn {

// x (n x in) times weight (out x in) transposed, plus bias (out): n x out.
[[nodiscard]] Variable linear(Tape& tape, const Variable& x, const Variable& weight,
                              const Variable& bias);

// max(x, 0), element-wise.
[[nodiscard]] Variable relu(Tape& tape, const Variable& x);

// Mean over the rows of -log softmax(logits)[label]: a scalar, 0 for an empty batch. logits is
// n x classes, labels are int64 in [0, classes). CUDA cannot throw for a bad label: the loss is
// NaN.
[[nodiscard]] Variable softmax_cross_entropy(Tape& tape, const Variable& logits,
                                             const Tensor& labels);

// Rows whose largest logit is that of their label: an int64 scalar on the device.
[[nodiscard]] Tensor count_correct(Context& context, const Tensor& logits, const Tensor& labels);

}  // namespace ddp::nn
