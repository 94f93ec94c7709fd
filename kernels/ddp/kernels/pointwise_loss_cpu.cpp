// SPDX-License-Identifier: MIT
#include "ddp/kernels/pointwise_loss.h"

#include <algorithm>

#include "ddp/kernels/detail/pointwise_loss_functions.h"

namespace ddp::cpu {
namespace {

template <class T, class Loss>
void forward(const Loss& loss, const Buffer& x, const Buffer& target,
             const PointwiseLossResult& result, MatrixShape shape) {
  const T* in = static_cast<const T*>(x.data);
  const T* expected = static_cast<const T*>(target.data);
  double total = 0;
  for (T& row_loss : result.row_losses.as<T>()) {
    double sum = 0;
    for (std::size_t c = 0; c < shape.columns; ++c) {
      sum += static_cast<double>(loss.loss(*in++, *expected++));
    }
    row_loss = static_cast<T>(shape.columns == 0 ? 0 : sum / static_cast<double>(shape.columns));
    total += sum;
  }
  const double mean = x.count == 0 ? 0 : total / static_cast<double>(x.count);
  *static_cast<T*>(result.loss.data) = static_cast<T>(mean);
}

template <class T, class Loss>
void backward(const Loss& loss, const Buffer& x, const Buffer& target, const Buffer& grad_loss,
              const GradientTarget& grad_x) {
  const T* in = static_cast<const T*>(x.data);
  const T* expected = static_cast<const T*>(target.data);
  T* gradients = static_cast<T*>(grad_x.buffer.data);
  const T scale =
      *static_cast<const T*>(grad_loss.data) / static_cast<T>(std::max<std::size_t>(x.count, 1));
  const bool accumulates = grad_x.mode == WriteMode::kAccumulate;
  for (std::size_t i = 0; i < x.count; ++i) {
    const T gradient = loss.slope(in[i], expected[i]) * scale;
    gradients[i] = accumulates ? gradients[i] + gradient : gradient;
  }
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
