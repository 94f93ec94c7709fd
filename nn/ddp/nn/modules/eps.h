// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>

namespace ddp::nn {

// For what a normalisation adds to a variance. A NaN is refused, too.
inline void check_eps(const std::string& layer, double eps) {
  if (eps >= 0 && std::isfinite(eps)) return;
  throw std::invalid_argument("[nn] " + layer + ": eps is " + std::to_string(eps) +
                              ", but it must be finite and 0 or above");
}

}  // namespace ddp::nn
