// SPDX-License-Identifier: MIT
#include "ddp/kernels/detail/sgd_checks.h"
#include "ddp/kernels/sgd.h"

namespace ddp::cpu {
namespace {

template <class T>
struct Factors {
  T learning_rate;
  T momentum;
  T weight_decay;
  T grad_scale;
};

// __restrict: the three buffers never overlap, and without the promise gcc checks at run time.
template <class T>
void plain_step(T* __restrict value, const T* __restrict grad, std::size_t count, Factors<T> f) {
  for (std::size_t i = 0; i < count; ++i) {
    value[i] -= f.learning_rate * (grad[i] * f.grad_scale + f.weight_decay * value[i]);
  }
}

template <class T>
void momentum_step(T* __restrict value, const T* __restrict grad, T* __restrict velocity,
                   std::size_t count, Factors<T> f) {
  for (std::size_t i = 0; i < count; ++i) {
    const T g = grad[i] * f.grad_scale + f.weight_decay * value[i];
    velocity[i] = f.momentum * velocity[i] + g;
    value[i] -= f.learning_rate * velocity[i];
  }
}

}  // namespace

void sgd_step(const Buffer& value, const Buffer& grad, const Buffer& velocity, const SgdStep& step,
              const double* grad_scale) {
  detail::check_sgd_step(value, grad, velocity, step);
  detail::dispatch_float("sgd_step", value.dtype, [&](auto element) {
    using T = decltype(element);
    const Factors<T> factors{static_cast<T>(step.learning_rate), static_cast<T>(step.momentum),
                             static_cast<T>(step.weight_decay),
                             grad_scale == nullptr ? T{1} : static_cast<T>(*grad_scale)};
    T* values = static_cast<T*>(value.data);
    const T* grads = static_cast<const T*>(grad.data);
    if (velocity.count == 0) {
      plain_step(values, grads, value.count, factors);
    } else {
      momentum_step(values, grads, static_cast<T*>(velocity.data), value.count, factors);
    }
  });
}

}  // namespace ddp::cpu
