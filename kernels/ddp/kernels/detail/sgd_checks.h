// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/sgd.h"

namespace ddp::detail {

inline void check_sgd_step(std::span<const SgdTensor> tensors, const SgdStep& step) {
  check_options(step);
  for (const SgdTensor& tensor : tensors) {
    const Buffer& value = tensor.value;
    require("sgd_step", "value", value, like(tensors.front().value, value.count));
    require("sgd_step", "grad", tensor.grad, value);
    require("sgd_step", "momentum_buffer", tensor.momentum_buffer,
            like(value, step.momentum == 0 ? 0 : value.count));
  }
}

}  // namespace ddp::detail
