// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "ddp/kernels/cross_entropy.h"
#include "ddp/kernels/detail/cross_entropy_checks.h"

namespace ddp::cpu {
namespace {

std::size_t checked_label(std::span<const std::int64_t> labels, std::size_t row,
                          std::size_t classes) {
  const std::int64_t label = labels[row];
  if (!detail::is_class(label, classes)) {
    throw std::invalid_argument(fmt::format(
        "[kernels] softmax_cross_entropy_forward: the label of row {} is {}, expected 0 to {}", row,
        label, static_cast<std::int64_t>(classes) - 1));
  }
  return static_cast<std::size_t>(label);
}

// Writes the softmax of one row and returns its loss.
template <class T>
T softmax_row(const T* logits, T* probabilities, std::size_t classes, std::size_t label,
              T label_smoothing) {
  const T maximum = *std::max_element(logits, logits + classes);
  const T shifted_label = logits[label] - maximum;
  T sum = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    probabilities[c] = std::exp(logits[c] - maximum);
    sum += probabilities[c];
  }
  const T inverse = T{1} / sum;
  for (std::size_t c = 0; c < classes; ++c) probabilities[c] *= inverse;
  const T loss = std::log(sum) - shifted_label;
  if (label_smoothing == T{0}) return loss;
  T shifted_sum = 0;
  for (std::size_t c = 0; c < classes; ++c) shifted_sum += logits[c] - maximum;
  const T uniform_loss = std::log(sum) - shifted_sum / static_cast<T>(classes);
  return (T{1} - label_smoothing) * loss + label_smoothing * uniform_loss;
}

template <class T>
void forward(const Buffer& logits, std::span<const std::int64_t> labels,
             const CrossEntropyResult& result, MatrixShape shape, double label_smoothing) {
  double total = 0;
  for (std::size_t r = 0; r < shape.rows; ++r) {
    const std::size_t offset = r * shape.columns;
    const T loss =
        softmax_row(static_cast<const T*>(logits.data) + offset,
                    static_cast<T*>(result.probabilities.data) + offset, shape.columns,
                    checked_label(labels, r, shape.columns), static_cast<T>(label_smoothing));
    result.row_losses.as<T>()[r] = loss;
    total += static_cast<double>(loss);
  }
  const double mean = shape.rows == 0 ? 0 : total / static_cast<double>(shape.rows);
  *static_cast<T*>(result.loss.data) = static_cast<T>(mean);
}

template <class T, WriteMode mode>
void backward(const T* probabilities, std::span<const std::int64_t> labels, T scale, T* target,
              std::size_t classes, T label_smoothing) {
  const T of_others = label_smoothing / static_cast<T>(classes);
  const T of_label = T{1} - label_smoothing;
  for (const std::int64_t label : labels) {
    for (std::size_t c = 0; c < classes; ++c) {
      const T one_hot = static_cast<T>(static_cast<std::int64_t>(c) == label);
      const T gradient = (probabilities[c] - of_others - of_label * one_hot) * scale;
      target[c] = mode == WriteMode::kAccumulate ? target[c] + gradient : gradient;
    }
    probabilities += classes;
    target += classes;
  }
}

template <class T>
bool is_among_largest(const T* row, std::size_t columns, std::int64_t label, std::size_t k) {
  if (!detail::is_class(label, columns)) return false;
  const auto own = static_cast<std::size_t>(label);
  std::size_t before = 0;
  for (std::size_t c = 0; c < columns; ++c) {
    before += detail::comes_before_label(row, c, own) ? 1 : 0;
  }
  return before < std::min(k, columns);  // never true where the label's own logit is NaN
}

}  // namespace

void softmax_cross_entropy_forward(const Buffer& logits, const Buffer& labels,
                                   const CrossEntropyResult& result, MatrixShape shape,
                                   double label_smoothing) {
  detail::check_forward(logits, labels, result, shape);
  detail::dispatch_float("softmax_cross_entropy_forward", logits.dtype, [&](auto element) {
    forward<decltype(element)>(logits, labels.as<const std::int64_t>(), result, shape,
                               label_smoothing);
  });
}

void softmax_cross_entropy_backward(const Buffer& probabilities, const Buffer& labels,
                                    const Buffer& grad_loss, const GradientTarget& grad_logits,
                                    MatrixShape shape, double label_smoothing) {
  detail::check_backward(probabilities, labels, grad_loss, grad_logits.buffer, shape);
  if (shape.rows == 0) return;
  detail::dispatch_float("softmax_cross_entropy_backward", probabilities.dtype, [&](auto element) {
    using T = decltype(element);
    const T scale = *static_cast<const T*>(grad_loss.data) / static_cast<T>(shape.rows);
    const auto run = grad_logits.mode == WriteMode::kAccumulate
                         ? backward<T, WriteMode::kAccumulate>
                         : backward<T, WriteMode::kOverwrite>;
    run(static_cast<const T*>(probabilities.data), labels.as<const std::int64_t>(), scale,
        static_cast<T*>(grad_logits.buffer.data), shape.columns, static_cast<T>(label_smoothing));
  });
}

void count_correct(const Buffer& logits, const Buffer& labels, const Buffer& count,
                   MatrixShape shape, std::size_t k) {
  detail::check_count_correct(logits, labels, count, shape);
  detail::dispatch_float("count_correct", logits.dtype, [&](auto element) {
    using T = decltype(element);
    std::int64_t correct = 0;
    const T* row = static_cast<const T*>(logits.data);
    for (const std::int64_t label : labels.as<const std::int64_t>()) {
      correct += is_among_largest(row, shape.columns, label, k) ? 1 : 0;
      row += shape.columns;
    }
    *static_cast<std::int64_t*>(count.data) = correct;
  });
}

}  // namespace ddp::cpu
