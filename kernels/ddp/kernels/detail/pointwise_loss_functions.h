// SPDX-License-Identifier: MIT
//
// The losses of pointwise_loss.h, and their slopes in x, which are slope() * kSlopeFactor. What
// multiplies a slope takes the factor, so that slope() does not overflow before it is divided by
// the number of elements.
#pragma once

#include <cmath>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/elementary.h"
#include "ddp/kernels/detail/host_device.h"
#include "ddp/kernels/pointwise_loss.h"

namespace ddp::detail {

template <class T>
struct SquaredError {
  DDP_HOST_DEVICE T loss(T x, T target) const { return (x - target) * (x - target); }
  static constexpr T kSlopeFactor = 2;
  DDP_HOST_DEVICE T slope(T x, T target) const { return x - target; }
};

template <class T>
struct BceWithLogits {
  T pos_weight;

  DDP_HOST_DEVICE T weight(T target) const { return T{1} + (pos_weight - T{1}) * target; }
  DDP_HOST_DEVICE T loss(T x, T target) const {
    const T minus_log_of_p = log1p_of_fraction(exp(-std::abs(x))) + (x < T{0} ? -x : T{0});
    return (T{1} - target) * x + weight(target) * minus_log_of_p;
  }
  static constexpr T kSlopeFactor = 1;
  // With p = sigmoid(x): (1 - target) p - pos_weight target (1 - p), neither of which is computed
  // as a difference of numbers near 1.
  DDP_HOST_DEVICE T slope(T x, T target) const {
    const T e = exp(-std::abs(x));
    const T large = T{1} / (T{1} + e), small = e * large;
    const T p = x < T{0} ? small : large, rest = x < T{0} ? large : small;
    return (T{1} - target) * p - pos_weight * target * rest;
  }
};

inline void check_pointwise_loss(const Buffer& x, const Buffer& target,
                                 const PointwiseLossResult& result, MatrixShape shape) {
  const char* const kernel = "pointwise_loss_forward";
  require(kernel, "x", x, like(x, shape.count()));
  require(kernel, "target", target, x);
  require(kernel, "row_losses", result.row_losses, like(x, shape.rows));
  require(kernel, "loss", result.loss, like(x, 1));
}

inline void check_pointwise_backward(const Buffer& x, const Buffer& target, const Buffer& grad_loss,
                                     const Buffer& grad_x, MatrixShape shape) {
  const char* const kernel = "pointwise_loss_backward";
  require(kernel, "x", x, like(x, shape.count()));
  require(kernel, "target", target, x);
  require(kernel, "grad_loss", grad_loss, like(x, 1));
  require(kernel, "grad_x", grad_x, x);
}

// Calls run(function, T{}) with the loss for elements of that type.
template <class Run>
void dispatch_pointwise_loss(const char* kernel, DType dtype, const PointwiseLoss& f, Run&& run) {
  dispatch_float(kernel, dtype, [&](auto element) {
    using T = decltype(element);
    switch (f.kind) {
      case PointwiseLossKind::kSquaredError:
        return run(SquaredError<T>{}, element);
      case PointwiseLossKind::kBceWithLogits:
        return run(BceWithLogits<T>{static_cast<T>(f.pos_weight)}, element);
    }
  });
}

}  // namespace ddp::detail
