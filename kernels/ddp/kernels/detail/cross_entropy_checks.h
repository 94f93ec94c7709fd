// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

#include "ddp/kernels/cross_entropy.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/host_device.h"

namespace ddp::detail {

DDP_HOST_DEVICE inline bool is_class(std::int64_t label, std::size_t classes) {
  return label >= 0 && static_cast<std::size_t>(label) < classes;
}

// True if class `c` is sorted before the label's by falling logits: of equal ones the first class
// comes first, and a NaN comes before any number. A label whose own logit is NaN comes last.
template <class T>
DDP_HOST_DEVICE bool comes_before_label(const T* row, std::size_t c, std::size_t label) {
  return !(row[c] < row[label]) && !(row[c] == row[label] && c >= label);
}

inline void check_smoothing(const char* kernel, double label_smoothing) {
  if (label_smoothing >= 0 && label_smoothing <= 1) return;
  throw std::invalid_argument("[kernels] " + std::string(kernel) + ": the label smoothing is " +
                              std::to_string(label_smoothing) + ", expected 0 to 1");
}

inline void check_forward(const Buffer& logits, const Buffer& labels,
                          const CrossEntropyResult& result, MatrixShape shape,
                          double label_smoothing) {
  constexpr const char* kKernel = "softmax_cross_entropy_forward";
  check_smoothing(kKernel, label_smoothing);
  require(kKernel, "logits", logits, like(logits, shape.count()));
  require(kKernel, "labels", labels, like(logits, shape.rows, DType::kInt64));
  require(kKernel, "probabilities", result.probabilities, logits);
  require(kKernel, "row_losses", result.row_losses, like(logits, shape.rows));
  require(kKernel, "loss", result.loss, like(logits, 1));
}

inline void check_backward(const Buffer& probabilities, const Buffer& labels,
                           const Buffer& grad_loss, const Buffer& grad_logits, MatrixShape shape,
                           double label_smoothing) {
  constexpr const char* kKernel = "softmax_cross_entropy_backward";
  check_smoothing(kKernel, label_smoothing);
  require(kKernel, "probabilities", probabilities, like(probabilities, shape.count()));
  require(kKernel, "labels", labels, like(probabilities, shape.rows, DType::kInt64));
  require(kKernel, "grad_loss", grad_loss, like(probabilities, 1));
  require(kKernel, "grad_logits", grad_logits, probabilities);
}

inline void check_count_correct(const Buffer& logits, const Buffer& labels, const Buffer& count,
                                MatrixShape shape) {
  require("count_correct", "logits", logits, like(logits, shape.count()));
  require("count_correct", "labels", labels, like(logits, shape.rows, DType::kInt64));
  require("count_correct", "count", count, like(logits, 1, DType::kInt64));
}

}  // namespace ddp::detail
