// SPDX-License-Identifier: MIT
#include <cmath>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/adam.h"
#include "ddp/kernels/detail/adam_factors.h"

namespace ddp::cpu {
namespace {

// __restrict: the buffers never overlap; without it gcc would check this at run time.
template <class T>
void step_elements(T* __restrict value, const T* __restrict grad, T* __restrict exp_avg,
                   T* __restrict exp_avg_sq, std::size_t count, detail::AdamFactors<T> f,
                   detail::AdamCorrections<T> corrections, T grad_scale) {
  for (std::size_t i = 0; i < count; ++i) {
    const T g = grad[i] * grad_scale + f.l2_decay * value[i];
    exp_avg[i] = f.beta1 * exp_avg[i] + f.one_minus_beta1 * g;
    exp_avg_sq[i] = f.beta2 * exp_avg_sq[i] + f.one_minus_beta2 * g * g;
    const T root = std::sqrt(exp_avg_sq[i]) / corrections.root + f.eps;
    value[i] = f.shrinkage * value[i] - corrections.step_size * exp_avg[i] / root;
  }
}

}  // namespace

void adam_step(std::span<const AdamTensor> tensors, const AdamStep& step,
               const double* grad_scale) {
  if (tensors.empty()) return;
  detail::check_adam_step(tensors, step);
  detail::dispatch_float("adam_step", tensors.front().value.dtype, [&](auto element) {
    using T = decltype(element);
    const detail::AdamFactors<T> factors(step);
    const T scale = grad_scale == nullptr ? T{1} : static_cast<T>(*grad_scale);
    for (const AdamTensor& tensor : tensors) {
      const detail::AdamCorrections<T> corrections(step, tensor.step);
      vectorised([&] {
        step_elements(static_cast<T*>(tensor.value.data), static_cast<const T*>(tensor.grad.data),
                      static_cast<T*>(tensor.exp_avg.data), static_cast<T*>(tensor.exp_avg_sq.data),
                      tensor.value.count, factors, corrections, scale);
      });
    }
  });
}

}  // namespace ddp::cpu
