// SPDX-License-Identifier: MIT
//
// There are no atomics on floating-point numbers, so equal inputs give equal bits.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/cross_entropy.h"
#include "ddp/kernels/detail/cross_entropy_checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/mean.cuh"
#include "ddp/kernels/detail/rows.cuh"

namespace ddp::cu {
namespace {

template <class Rows, class T = typename Rows::Element>
__global__ void softmax_kernel(const T* logits, const std::int64_t* labels, T* probabilities,
                               T* row_losses, MatrixShape shape, T label_smoothing) {
  using Team = typename Rows::Team;
  const std::size_t classes = shape.columns;
  Rows::for_each(shape.rows, [&](std::size_t r) {
    const T* in = logits + r * classes;
    const auto row = Rows::read(in, classes);
    T maximum = -static_cast<T>(INFINITY);
    Rows::visit(
        classes, [&](std::size_t, T logit) { maximum = max(maximum, logit); }, row);
    maximum = Team::max(maximum);
    T sum = 0, shifted_sum = 0;
    const auto add = [&](std::size_t, T logit) {
      sum += exp(logit - maximum);
      shifted_sum += logit - maximum;
    };
    Rows::visit(classes, add, row);
    sum = Team::sum(sum);
    shifted_sum = Team::sum(shifted_sum);
    const T inverse = T{1} / sum;
    const auto probability = [&](std::size_t, T logit) { return exp(logit - maximum) * inverse; };
    Rows::store(probabilities + r * classes, classes, WriteMode::kOverwrite, probability, row);
    if (Team::lane() == 0) {
      const std::int64_t label = labels[r];
      const T loss =
          detail::is_class(label, classes) ? log(sum) - (in[label] - maximum) : static_cast<T>(NAN);
      const T uniform_loss = log(sum) - shifted_sum / static_cast<T>(classes);
      row_losses[r] = label_smoothing == T{0}
                          ? loss
                          : (T{1} - label_smoothing) * loss + label_smoothing * uniform_loss;
    }
  });
}

template <class T, class Index>
__global__ void cross_entropy_backward_kernel(const T* probabilities, const std::int64_t* labels,
                                              const T* grad_loss, T* grad_logits, Index rows,
                                              detail::Divisor<Index> classes, T label_smoothing,
                                              WriteMode mode) {
  const T of_others = label_smoothing / static_cast<T>(Index{classes});
  const T of_label = T{1} - label_smoothing + of_others;
  const T scale = *grad_loss / static_cast<T>(rows);
  launch::for_each_index(static_cast<Index>(rows * classes), [&](Index i) {
    const Index row = i / classes;
    const std::int64_t label = labels[row];
    T expected = static_cast<std::int64_t>(i - row * classes) == label ? of_label : of_others;
    if (!detail::is_class(label, Index{classes})) expected = static_cast<T>(NAN);
    launch::store(&grad_logits[i], (probabilities[i] - expected) * scale, mode);
  });
}

template <class T>
__global__ void count_correct_kernel(const T* logits, const std::int64_t* labels,
                                     unsigned long long* count, MatrixShape shape, std::size_t k) {
  for (std::size_t r = launch::first_row(); r < shape.rows; r += launch::row_step()) {
    if (!detail::is_class(labels[r], shape.columns)) continue;
    const T* row = logits + r * shape.columns;
    const auto own = static_cast<std::size_t>(labels[r]);
    unsigned long long before = 0;
    for (std::size_t c = launch::lane(); c < shape.columns; c += launch::kWarp) {
      before += detail::comes_before_label(row, c, own) ? 1 : 0;
    }
    for (unsigned offset = launch::kWarp / 2; offset > 0; offset /= 2) {
      before += __shfl_xor_sync(0xffffffffU, before, offset);
    }
    if (launch::lane() == 0 && before < k) atomicAdd(count, 1ULL);
  }
}

}  // namespace

void softmax_cross_entropy_forward(const Buffer& logits, const Buffer& labels,
                                   const CrossEntropyResult& result, MatrixShape shape,
                                   double label_smoothing, Stream stream) {
  detail::check_forward(logits, labels, result, shape, label_smoothing);
  const DeviceGuard guard(logits.device);
  detail::dispatch_float("softmax_cross_entropy_forward", logits.dtype, [&](auto element) {
    using T = decltype(element);
    T* row_losses = static_cast<T*>(result.row_losses.data);
    if (shape.rows > 0) {
      const auto* in = static_cast<const T*>(logits.data);
      auto* out = static_cast<T*>(result.probabilities.data);
      const bool is_aligned = launch::are_aligned(in, out);
      launch::with_rows<T>(shape, is_aligned, [&](auto rows, unsigned blocks) {
        launch::run(softmax_kernel<decltype(rows)>, blocks, stream, in,
                    static_cast<const std::int64_t*>(labels.data), out, row_losses, shape,
                    static_cast<T>(label_smoothing));
      });
    }
    launch::run(launch::mean_kernel<T>, 1, stream, row_losses, shape.rows,
                static_cast<T*>(result.loss.data));
  });
}

void softmax_cross_entropy_backward(const Buffer& probabilities, const Buffer& labels,
                                    const Buffer& grad_loss, const GradientTarget& grad_logits,
                                    MatrixShape shape, double label_smoothing, Stream stream) {
  detail::check_backward(probabilities, labels, grad_loss, grad_logits.buffer, shape,
                         label_smoothing);
  if (probabilities.count == 0) return;
  const DeviceGuard guard(probabilities.device);
  detail::dispatch_float("softmax_cross_entropy_backward", probabilities.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_grid_index(shape.count(), [&](auto index) {
      using Index = decltype(index);
      launch::run(cross_entropy_backward_kernel<T, Index>, launch::blocks_for(shape.count()),
                  stream, static_cast<const T*>(probabilities.data),
                  static_cast<const std::int64_t*>(labels.data),
                  static_cast<const T*>(grad_loss.data), static_cast<T*>(grad_logits.buffer.data),
                  static_cast<Index>(shape.rows), static_cast<Index>(shape.columns),
                  static_cast<T>(label_smoothing), grad_logits.mode);
    });
  });
}

void count_correct(const Buffer& logits, const Buffer& labels, const Buffer& count,
                   MatrixShape shape, std::size_t k, Stream stream) {
  detail::check_count_correct(logits, labels, count, shape);
  cu::fill(count, 0, stream);
  if (shape.rows == 0) return;
  const DeviceGuard guard(logits.device);
  detail::dispatch_float("count_correct", logits.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(count_correct_kernel<T>, launch::blocks_for(shape.rows, launch::kRowsPerBlock),
                stream, static_cast<const T*>(logits.data),
                static_cast<const std::int64_t*>(labels.data),
                static_cast<unsigned long long*>(count.data), shape, std::min(k, shape.columns));
  });
}

}  // namespace ddp::cu
