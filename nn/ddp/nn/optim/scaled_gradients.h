// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>

#include "ddp/nn/parameter.h"

namespace ddp::nn {

// For `call`, which takes gradients as they are: throws std::logic_error if one still needs its
// owner's factor.
inline void refuse_scaled_gradients(const char* call, std::span<Parameter* const> parameters) {
  const auto needs_factor = [](const Parameter* each) {
    return each->has_grad() && each->has_grad_scale();
  };
  const auto found = std::ranges::find_if(parameters, needs_factor);
  if (found == parameters.end()) return;
  throw std::logic_error("[nn] " + std::string(call) + ": the gradient of '" + (*found)->name() +
                         "' is a sum, which its DistributedModule's scale turns into the mean: "
                         "call the module's clip_grad_norm() and the optimizer's step(), or pass "
                         "engine().gradient_scale()");
}

}  // namespace ddp::nn
