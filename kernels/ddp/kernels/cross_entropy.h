// SPDX-License-Identifier: MIT
//
// Softmax and cross-entropy in one operation, for a batch of class labels. Logits and probabilities
// are samples x classes; labels are int64 in [0, classes).
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

struct CrossEntropyResult {
  Buffer probabilities;  // samples x classes: for the backward pass
  Buffer row_losses;     // one per sample
  Buffer loss;           // 1: the mean of row_losses, 0 without samples
};

}  // namespace ddp

namespace ddp::cpu {

// row_loss = log(sum over c of exp(logit_c)) - logit_label, shifted by the row's maximum so that
// nothing overflows. With label smoothing s (torch.nn.CrossEntropyLoss), (1 - s) of that and s of
// the mean over c of log(sum) - logit_c, which is the cross-entropy to the distribution with s /
// classes for every class and 1 - s more for the label; std::invalid_argument unless s is between 0
// and 1. A label outside its range is std::invalid_argument here; on CUDA, which cannot throw from
// a kernel, the loss is NaN, and so is the row's gradient. There is no ignore_index: -100 is
// outside the range, too.
void softmax_cross_entropy_forward(const Buffer& logits, const Buffer& labels,
                                   const CrossEntropyResult& result, MatrixShape shape,
                                   double label_smoothing);

// grad_logits = (probabilities - that distribution) * grad_loss[0] / samples.
void softmax_cross_entropy_backward(const Buffer& probabilities, const Buffer& labels,
                                    const Buffer& grad_loss, const GradientTarget& grad_logits,
                                    MatrixShape shape, double label_smoothing);

// count[0] (int64) = samples whose label is one of the k largest logits; of equals the first wins.
// A NaN counts as larger than any number, but as wrong where it is the label's.
void count_correct(const Buffer& logits, const Buffer& labels, const Buffer& count,
                   MatrixShape shape, std::size_t k);

}  // namespace ddp::cpu

namespace ddp::cu {

void softmax_cross_entropy_forward(const Buffer& logits, const Buffer& labels,
                                   const CrossEntropyResult& result, MatrixShape shape,
                                   double label_smoothing, Stream stream);
void softmax_cross_entropy_backward(const Buffer& probabilities, const Buffer& labels,
                                    const Buffer& grad_loss, const GradientTarget& grad_logits,
                                    MatrixShape shape, double label_smoothing, Stream stream);
void count_correct(const Buffer& logits, const Buffer& labels, const Buffer& count,
                   MatrixShape shape, std::size_t k, Stream stream);

}  // namespace ddp::cu
