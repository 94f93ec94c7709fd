// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/cross_entropy.h"
#include "ddp/kernels/detail/cross_entropy_checks.h"
#include "ddp/kernels/detail/softmax_row.h"
#include "ddp/kernels/detail/wide_sums.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

void check_labels(std::span<const std::int64_t> labels, std::size_t classes) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (detail::is_class(labels[row], classes)) continue;
    throw std::invalid_argument(fmt::format(
        "[kernels] softmax_cross_entropy_forward: the label of row {} is {}, expected 0 to {}", row,
        labels[row], static_cast<std::int64_t>(classes) - 1));
  }
}

// Writes the softmax of one row and returns its loss.
template <class T>
T loss_of_row(const T* logits, T* probabilities, std::size_t classes, std::size_t label,
              T label_smoothing) {
  const T maximum = detail::row_maximum(logits, classes);
  const T shifted_label = logits[label] - maximum;
  const auto shifted = [=](std::size_t c) { return logits[c] - maximum; };
  const double sum_of_shifted = label_smoothing == T{0} ? 0 : detail::wide_sum(classes, shifted);
  const T sum = detail::softmax_row(logits, probabilities, classes, maximum);
  const T loss = std::log(sum) - shifted_label;
  if (label_smoothing == T{0}) return loss;
  const double mean = sum_of_shifted / static_cast<double>(classes);
  const T uniform_loss = std::log(sum) - static_cast<T>(mean);
  return (T{1} - label_smoothing) * loss + label_smoothing * uniform_loss;
}

template <class T>
void forward(const Buffer& logits, std::span<const std::int64_t> labels,
             const CrossEntropyResult& result, MatrixShape shape, T label_smoothing) {
  const T* in = static_cast<const T*>(logits.data);
  T* probabilities = static_cast<T*>(result.probabilities.data);
  const std::span<T> row_losses = result.row_losses.as<T>();
  vectorised([=] {
    for (std::size_t r = 0; r < shape.rows; ++r) {
      row_losses[r] =
          loss_of_row(in + r * shape.columns, probabilities + r * shape.columns, shape.columns,
                      static_cast<std::size_t>(labels[r]), label_smoothing);
    }
  });
  const double total = detail::wide_sum(shape.rows, [=](std::size_t r) { return row_losses[r]; });
  const double mean = shape.rows == 0 ? 0 : total / static_cast<double>(shape.rows);
  *static_cast<T*>(result.loss.data) = static_cast<T>(mean);
}

template <class T>
struct CrossEntropyScales {
  T of_loss;
  T label_smoothing;
};

template <class T>
void backward(const T* probabilities, std::span<const std::int64_t> labels,
              CrossEntropyScales<T> scales, std::size_t classes, T* target, WriteMode mode) {
  const T of_others = scales.label_smoothing / static_cast<T>(classes);
  const T of_label = T{1} - scales.label_smoothing;
  for (const std::int64_t label : labels) {
    detail::write_each(target, mode, classes, [=](std::size_t c) {
      const T one_hot = static_cast<T>(static_cast<std::int64_t>(c) == label);
      return (probabilities[c] - of_others - of_label * one_hot) * scales.of_loss;
    });
    probabilities += classes;
    target += classes;
  }
}

// The columns that come before the label's in the order of comes_before_label().
template <class T>
std::size_t columns_before(const T* row, std::size_t columns, std::size_t label) {
  const T own = row[label];
  std::size_t before = 0;
  for (std::size_t c = 0; c < label; ++c) before += row[c] < own ? 0 : 1;
  for (std::size_t c = label; c < columns; ++c) before += row[c] <= own ? 0 : 1;
  return before;
}

template <class T>
bool is_among_largest(const T* row, std::size_t columns, std::int64_t label, std::size_t k) {
  if (!detail::is_class(label, columns)) return false;
  const std::size_t before = columns_before(row, columns, static_cast<std::size_t>(label));
  return before < std::min(k, columns);  // never true where the label's own logit is NaN
}

}  // namespace

void softmax_cross_entropy_forward(const Buffer& logits, const Buffer& labels,
                                   const CrossEntropyResult& result, MatrixShape shape,
                                   double label_smoothing) {
  detail::check_forward(logits, labels, result, shape, label_smoothing);
  const auto checked_labels = labels.as<const std::int64_t>();
  check_labels(checked_labels, shape.columns);
  detail::dispatch_float("softmax_cross_entropy_forward", logits.dtype, [&](auto element) {
    forward(logits, checked_labels, result, shape, static_cast<decltype(element)>(label_smoothing));
  });
}

void softmax_cross_entropy_backward(const Buffer& probabilities, const Buffer& labels,
                                    const Buffer& grad_loss, const GradientTarget& grad_logits,
                                    MatrixShape shape, double label_smoothing) {
  detail::check_backward(probabilities, labels, grad_loss, grad_logits.buffer, shape,
                         label_smoothing);
  if (shape.rows == 0) return;
  detail::dispatch_float("softmax_cross_entropy_backward", probabilities.dtype, [&](auto element) {
    using T = decltype(element);
    const T scale = *static_cast<const T*>(grad_loss.data) / static_cast<T>(shape.rows);
    const T* in = static_cast<const T*>(probabilities.data);
    T* target = static_cast<T*>(grad_logits.buffer.data);
    const CrossEntropyScales<T> scales{scale, static_cast<T>(label_smoothing)};
    const auto row_labels = labels.as<const std::int64_t>();
    vectorised([=, mode = grad_logits.mode] {
      backward(in, row_labels, scales, shape.columns, target, mode);
    });
  });
}

void count_correct(const Buffer& logits, const Buffer& labels, const Buffer& count,
                   MatrixShape shape, std::size_t k) {
  detail::check_count_correct(logits, labels, count, shape);
  detail::dispatch_float("count_correct", logits.dtype, [&](auto element) {
    using T = decltype(element);
    const T* rows = static_cast<const T*>(logits.data);
    const auto row_labels = labels.as<const std::int64_t>();
    std::int64_t correct = 0;
    vectorised([=, &correct] {
      for (std::size_t r = 0; r < shape.rows; ++r) {
        const T* row = rows + r * shape.columns;
        correct += is_among_largest(row, shape.columns, row_labels[r], k) ? 1 : 0;
      }
    });
    *static_cast<std::int64_t*>(count.data) = correct;
  });
}

}  // namespace ddp::cpu
