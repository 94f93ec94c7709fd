// SPDX-License-Identifier: MIT
#include "ddp/kernels/pointwise_loss.h"

#include <algorithm>
#include <span>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/pointwise_loss_functions.h"
#include "ddp/kernels/detail/wide_sums.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

template <class T, class Loss>
void forward(const Loss& loss, const Buffer& x, const Buffer& target,
             const PointwiseLossResult& result, MatrixShape shape) {
  const T* in = static_cast<const T*>(x.data);
  const T* expected = static_cast<const T*>(target.data);
  const std::span<T> row_losses = result.row_losses.as<T>();
  double total = 0;
  vectorised([=, &total] {
    for (std::size_t r = 0; r < shape.rows; ++r) {
      const std::size_t offset = r * shape.columns;
      const double sum = detail::wide_sum(shape.columns, [=](std::size_t c) {
        return loss.loss(in[offset + c], expected[offset + c]);
      });
      const double mean = shape.columns == 0 ? 0 : sum / static_cast<double>(shape.columns);
      row_losses[r] = static_cast<T>(mean);
      total += sum;
    }
  });
  const double mean = x.count == 0 ? 0 : total / static_cast<double>(x.count);
  *static_cast<T*>(result.loss.data) = static_cast<T>(mean);
}

template <class T, class Loss>
void backward(const Loss& loss, const Buffer& x, const Buffer& target, const Buffer& grad_loss,
              const GradientTarget& grad_x) {
  const T* in = static_cast<const T*>(x.data);
  const T* expected = static_cast<const T*>(target.data);
  T* gradients = static_cast<T*>(grad_x.buffer.data);
  const T mean_grad =
      *static_cast<const T*>(grad_loss.data) / static_cast<T>(std::max<std::size_t>(x.count, 1));
  const T scale = Loss::kSlopeFactor * mean_grad;
  vectorised([=, mode = grad_x.mode, count = x.count] {
    detail::write_each(gradients, mode, count,
                       [=](std::size_t i) { return loss.slope(in[i], expected[i]) * scale; });
  });
}

}  // namespace

void pointwise_loss_forward(const Buffer& x, const Buffer& target,
                            const PointwiseLossResult& result, MatrixShape shape,
                            const PointwiseLoss& f) {
  detail::check_pointwise_loss(x, target, result, shape);
  detail::dispatch_pointwise_loss("pointwise_loss_forward", x.dtype, f,
                                  [&](const auto& loss, auto element) {
                                    forward<decltype(element)>(loss, x, target, result, shape);
                                  });
}

void pointwise_loss_backward(const Buffer& x, const Buffer& target, const Buffer& grad_loss,
                             const GradientTarget& grad_x, MatrixShape shape,
                             const PointwiseLoss& f) {
  detail::check_pointwise_backward(x, target, grad_loss, grad_x.buffer, shape);
  detail::dispatch_pointwise_loss("pointwise_loss_backward", x.dtype, f,
                                  [&](const auto& loss, auto element) {
                                    backward<decltype(element)>(loss, x, target, grad_loss, grad_x);
                                  });
}

}  // namespace ddp::cpu
