// SPDX-License-Identifier: MIT
#include "ddp/kernels/pointwise_loss.h"

#include <algorithm>
#include <cmath>

#include "ddp/kernels/detail/pointwise_loss_checks.h"

namespace ddp::cpu {
namespace {

template <class T>
struct SquaredError {
  T loss(T x, T target) const { return (x - target) * (x - target); }
  T slope(T x, T target) const { return T{2} * (x - target); }
};

template <class T>
struct BinaryCrossEntropy {
  T pos_weight;

  T weight(T target) const { return T{1} + (pos_weight - T{1}) * target; }
  T loss(T x, T target) const {
    const T log_of_p = std::log1p(std::exp(-std::abs(x))) + std::max(-x, T{0});  // this is -log(p)
    return (T{1} - target) * x + weight(target) * log_of_p;
  }
  T slope(T x, T target) const { return T{1} - target - weight(target) / (T{1} + std::exp(x)); }
};

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

void mse_forward(const Buffer& x, const Buffer& target, const PointwiseLossResult& result,
                 MatrixShape shape) {
  detail::check_pointwise_loss("mse_forward", x, target, result, shape);
  detail::dispatch_float("mse_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    forward<T>(SquaredError<T>{}, x, target, result, shape);
  });
}

void mse_backward(const Buffer& x, const Buffer& target, const Buffer& grad_loss,
                  const GradientTarget& grad_x, MatrixShape shape) {
  detail::check_pointwise_backward("mse_backward", x, target, grad_loss, grad_x.buffer, shape);
  detail::dispatch_float("mse_backward", x.dtype, [&](auto element) {
    using T = decltype(element);
    backward<T>(SquaredError<T>{}, x, target, grad_loss, grad_x);
  });
}

void bce_with_logits_forward(const Buffer& x, const Buffer& target, double pos_weight,
                             const PointwiseLossResult& result, MatrixShape shape) {
  detail::check_pointwise_loss("bce_with_logits_forward", x, target, result, shape);
  detail::dispatch_float("bce_with_logits_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    forward<T>(BinaryCrossEntropy<T>{static_cast<T>(pos_weight)}, x, target, result, shape);
  });
}

void bce_with_logits_backward(const Buffer& x, const Buffer& target, double pos_weight,
                              const Buffer& grad_loss, const GradientTarget& grad_x,
                              MatrixShape shape) {
  detail::check_pointwise_backward("bce_with_logits_backward", x, target, grad_loss, grad_x.buffer,
                                   shape);
  detail::dispatch_float("bce_with_logits_backward", x.dtype, [&](auto element) {
    using T = decltype(element);
    backward<T>(BinaryCrossEntropy<T>{static_cast<T>(pos_weight)}, x, target, grad_loss, grad_x);
  });
}

}  // namespace ddp::cpu
