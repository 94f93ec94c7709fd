// SPDX-License-Identifier: MIT
//
// What the CPU and CUDA versions of adam_step share.
#pragma once

#include <cmath>
#include <span>
#include <stdexcept>
#include <string>

#include "ddp/kernels/adam.h"
#include "ddp/kernels/detail/checks.h"

namespace ddp::detail {

inline void check_adam_step(std::span<const AdamTensor> tensors, const AdamStep& step) {
  check_options(step);
  for (const AdamTensor& tensor : tensors) {
    const Buffer& value = tensor.value;
    require("adam_step", "value", value, like(tensors.front().value, value.count));
    require("adam_step", "grad", tensor.grad, value);
    require("adam_step", "exp_avg", tensor.exp_avg, value);
    require("adam_step", "exp_avg_sq", tensor.exp_avg_sq, value);
    if (tensor.step >= 1) continue;
    throw std::invalid_argument("[kernels] adam_step: step " + std::to_string(tensor.step) +
                                ", expected 1 or more");
  }
}

// The factors of all tensors of a call; computed in float64, rounded once.
template <class T>
struct AdamFactors {
  explicit AdamFactors(const AdamStep& step)
      : beta1(static_cast<T>(step.beta1)),
        beta2(static_cast<T>(step.beta2)),
        one_minus_beta1(static_cast<T>(1 - step.beta1)),
        one_minus_beta2(static_cast<T>(1 - step.beta2)),
        eps(static_cast<T>(step.eps)),
        l2_decay(static_cast<T>(step.decay == WeightDecay::kL2 ? step.weight_decay : 0)),
        shrinkage(static_cast<T>(step.decay == WeightDecay::kDecoupled
                                     ? 1 - step.learning_rate * step.weight_decay
                                     : 1)) {}

  T beta1, beta2, one_minus_beta1, one_minus_beta2, eps;
  T l2_decay;
  T shrinkage;
};

// The factors of one tensor: corrections for the averages' bias towards their initial zeros.
template <class T>
struct AdamCorrections {
  AdamCorrections() = default;
  AdamCorrections(const AdamStep& step, std::int64_t t)
      : step_size(static_cast<T>(step.learning_rate /
                                 (1 - std::pow(step.beta1, static_cast<double>(t))))),
        root(static_cast<T>(std::sqrt(1 - std::pow(step.beta2, static_cast<double>(t))))) {}

  T step_size;
  T root;
};

}  // namespace ddp::detail
