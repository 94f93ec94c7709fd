// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/sgd.h"

namespace ddp::detail {

inline void check_sgd_step(const Buffer& value, const Buffer& grad, const Buffer& velocity,
                           const SgdStep& step) {
  require("sgd_step", "grad", grad, value);
  require("sgd_step", "velocity", velocity, like(value, step.momentum == 0 ? 0 : value.count));
}

}  // namespace ddp::detail
