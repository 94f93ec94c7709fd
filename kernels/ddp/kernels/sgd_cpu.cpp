// SPDX-License-Identifier: MIT
#include "ddp/base/vectorised.h"
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

// __restrict: the three buffers never overlap; without it gcc would check this at run time.
template <class T>
void plain_step(T* __restrict value, const T* __restrict grad, std::size_t count, Factors<T> f) {
  for (std::size_t i = 0; i < count; ++i) {
    value[i] -= f.learning_rate * (grad[i] * f.grad_scale + f.weight_decay * value[i]);
  }
}

template <bool kNesterov, class T>
void momentum_step(T* __restrict value, const T* __restrict grad, T* __restrict velocity,
                   std::size_t count, Factors<T> f) {
  for (std::size_t i = 0; i < count; ++i) {
    const T g = grad[i] * f.grad_scale + f.weight_decay * value[i];
    velocity[i] = f.momentum * velocity[i] + g;
    value[i] -= f.learning_rate * (kNesterov ? g + f.momentum * velocity[i] : velocity[i]);
  }
}

template <class T>
void step_tensor(const SgdTensor& tensor, bool nesterov, const Factors<T>& factors) {
  T* value = static_cast<T*>(tensor.value.data);
  const T* grad = static_cast<const T*>(tensor.grad.data);
  T* velocity = static_cast<T*>(tensor.momentum_buffer.data);
  const std::size_t count = tensor.value.count;
  if (factors.momentum == T{0}) {
    plain_step(value, grad, count, factors);
  } else if (nesterov) {
    momentum_step<true>(value, grad, velocity, count, factors);
  } else {
    momentum_step<false>(value, grad, velocity, count, factors);
  }
}

}  // namespace

void sgd_step(std::span<const SgdTensor> tensors, const SgdStep& step, const double* grad_scale) {
  if (tensors.empty()) return;
  detail::check_sgd_step(tensors, step);
  detail::dispatch_float("sgd_step", tensors.front().value.dtype, [&](auto element) {
    using T = decltype(element);
    const Factors<T> factors{static_cast<T>(step.learning_rate), static_cast<T>(step.momentum),
                             static_cast<T>(step.weight_decay),
                             grad_scale == nullptr ? T{1} : static_cast<T>(*grad_scale)};
    for (const SgdTensor& tensor : tensors) {
      vectorised([&] { step_tensor(tensor, step.nesterov, factors); });
    }
  });
}

}  // namespace ddp::cpu
