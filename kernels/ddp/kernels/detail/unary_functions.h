// SPDX-License-Identifier: MIT
//
// The functions of unary.h, and their gradients for an incoming one.
#pragma once

#include <cmath>
#include <utility>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/elementary.h"
#include "ddp/kernels/detail/host_device.h"
#include "ddp/kernels/unary.h"

namespace ddp::detail {

// Some gradients choose instead of multiplying by 0: an infinite grad_y must not become NaN, as in
// PyTorch. grad_y is passed by value: to read it only where it is used would need a branch, which
// cannot be predicted and prevents vectorisation.

template <class T>
struct Abs {
  DDP_HOST_DEVICE T value(T x) const { return std::abs(x); }
  DDP_HOST_DEVICE T gradient(T x, T grad_y) const {
    return x > T{0} ? grad_y : x < T{0} ? -grad_y : x * grad_y;
  }
};

template <class T>
struct Affine {
  T a, b;

  DDP_HOST_DEVICE T value(T x) const { return a * x + b; }
  DDP_HOST_DEVICE T gradient(T, T grad_y) const { return a * grad_y; }
};

template <class T>
struct Clamp {
  T low, high;

  DDP_HOST_DEVICE T value(T x) const {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  DDP_HOST_DEVICE T gradient(T x, T grad_y) const { return x >= low && x <= high ? grad_y : T{0}; }
};

template <class T>
struct Exp {
  DDP_HOST_DEVICE T value(T x) const { return exp(x); }
  DDP_HOST_DEVICE T gradient(T y, T grad_y) const { return grad_y * y; }
};

template <class T>
struct Gelu {
  static constexpr T kDensity = static_cast<T>(0.39894228040143267794);  // 1 / sqrt(2 pi)

  DDP_HOST_DEVICE T value(T x) const { return x * normal_cdf(x); }
  DDP_HOST_DEVICE T gradient(T x, T grad_y) const {
    return grad_y * (normal_cdf(x) + x * kDensity * exp(-x * x / T{2}));
  }
};

// (1 + tanh(u)) / 2 is sigmoid(2 * u), which is more exact below 0.
template <class T>
struct GeluTanh {
  static constexpr T kFactor = static_cast<T>(1.59576912160573071176);  // 2 * sqrt(2 / pi)
  static constexpr T kCubic = static_cast<T>(0.044715);

  DDP_HOST_DEVICE static T cdf(T x) {
    return T{1} / (T{1} + exp(-kFactor * (x + kCubic * x * x * x)));
  }
  DDP_HOST_DEVICE T value(T x) const { return x * cdf(x); }
  DDP_HOST_DEVICE T gradient(T x, T grad_y) const {
    const T p = cdf(x);
    const T slope = kFactor * (T{1} + T{3} * kCubic * x * x);
    return grad_y * (p + x * p * (T{1} - p) * slope);
  }
};

template <class T>
struct LeakyRelu {
  T slope;

  DDP_HOST_DEVICE T value(T x) const { return x > T{0} ? x : slope * x; }
  DDP_HOST_DEVICE T gradient(T x, T grad_y) const { return x > T{0} ? grad_y : slope * grad_y; }
};

template <class T>
struct Log {
  DDP_HOST_DEVICE T value(T x) const { return log(x); }
  DDP_HOST_DEVICE T gradient(T x, T grad_y) const { return grad_y / x; }
};

template <class T>
struct Relu {
  DDP_HOST_DEVICE T value(T x) const { return x < T{0} ? T{0} : x; }
  DDP_HOST_DEVICE T gradient(T y, T grad_y) const { return y <= T{0} ? T{0} : grad_y; }
};

template <class T>
struct Sigmoid {
  DDP_HOST_DEVICE T value(T x) const { return T{1} / (T{1} + exp(-x)); }
  DDP_HOST_DEVICE T gradient(T y, T grad_y) const { return grad_y * y * (T{1} - y); }
};

template <class T>
struct Silu {
  DDP_HOST_DEVICE T value(T x) const { return x / (T{1} + exp(-x)); }
  DDP_HOST_DEVICE T gradient(T x, T grad_y) const {
    const T s = Sigmoid<T>{}.value(x);
    return grad_y * s * (T{1} + x * (T{1} - s));
  }
};

template <class T>
struct Softplus {
  DDP_HOST_DEVICE T value(T x) const {
    return log1p_of_fraction(exp(-std::abs(x))) + (x < T{0} ? T{0} : x);
  }
  DDP_HOST_DEVICE T gradient(T x, T grad_y) const { return grad_y * Sigmoid<T>{}.value(x); }
};

template <class T>
struct Sqrt {
  DDP_HOST_DEVICE T value(T x) const { return std::sqrt(x); }
  DDP_HOST_DEVICE T gradient(T y, T grad_y) const { return grad_y / (T{2} * y); }
};

template <class T>
struct Square {
  DDP_HOST_DEVICE T value(T x) const { return x * x; }
  DDP_HOST_DEVICE T gradient(T x, T grad_y) const { return T{2} * x * grad_y; }
};

template <class T>
struct Tanh {
  DDP_HOST_DEVICE T value(T x) const { return tanh(x); }
  DDP_HOST_DEVICE T gradient(T y, T grad_y) const { return grad_y * (T{1} - y * y); }
};

// Calls run(function) with the one of the above that `f` means.
template <class T, class Run>
void with_unary(const UnaryFunction& f, Run&& run) {
  const T a = static_cast<T>(f.a), b = static_cast<T>(f.b);
  switch (f.kind) {
    case UnaryKind::kAbs:
      return run(Abs<T>{});
    case UnaryKind::kAffine:
      return run(Affine<T>{a, b});
    case UnaryKind::kClamp:
      return run(Clamp<T>{a, b});
    case UnaryKind::kExp:
      return run(Exp<T>{});
    case UnaryKind::kGelu:
      return run(Gelu<T>{});
    case UnaryKind::kGeluTanh:
      return run(GeluTanh<T>{});
    case UnaryKind::kLeakyRelu:
      return run(LeakyRelu<T>{a});
    case UnaryKind::kLog:
      return run(Log<T>{});
    case UnaryKind::kRelu:
      return run(Relu<T>{});
    case UnaryKind::kSigmoid:
      return run(Sigmoid<T>{});
    case UnaryKind::kSilu:
      return run(Silu<T>{});
    case UnaryKind::kSoftplus:
      return run(Softplus<T>{});
    case UnaryKind::kSqrt:
      return run(Sqrt<T>{});
    case UnaryKind::kSquare:
      return run(Square<T>{});
    case UnaryKind::kTanh:
      return run(Tanh<T>{});
  }
}

// Calls run(function, T{}) with the function for elements of that type.
template <class Run>
void dispatch_unary(const char* kernel, DType dtype, const UnaryFunction& f, Run&& run) {
  dispatch_float(kernel, dtype, [&](auto element) {
    with_unary<decltype(element)>(f, [&](const auto& function) { run(function, element); });
  });
}

}  // namespace ddp::detail
