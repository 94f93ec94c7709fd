// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>

#include "ddp/nn/parameter.h"

namespace ddp::nn {

// Throws std::invalid_argument if a parameter of `owner`, as in "an optimizer", is a null pointer.
inline void refuse_null_pointers(const std::string& owner, std::span<Parameter* const> parameters) {
  if (std::ranges::find(parameters, nullptr) == parameters.end()) return;
  throw std::invalid_argument("[nn] " + owner + "'s parameter is a null pointer");
}

}  // namespace ddp::nn
