// SPDX-License-Identifier: MIT
//
// Checks that modules make when they are made, and operations when they are called.
#pragma once

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

namespace ddp::nn {

// For what a normalisation adds to a variance. A NaN is refused, too.
inline void check_eps(const std::string& layer, double eps) {
  if (eps >= 0 && std::isfinite(eps)) return;
  throw std::invalid_argument("[nn] " + layer + ": eps is " + std::to_string(eps) +
                              ", but it must be finite and 0 or above");
}

// For the weight of a batch in running statistics; likewise.
inline void check_momentum(const std::string& layer, const std::optional<double>& momentum) {
  if (!momentum || (*momentum >= 0 && *momentum <= 1)) return;
  throw std::invalid_argument("[nn] " + layer + ": momentum is " + std::to_string(*momentum) +
                              ", expected 0 to 1");
}

}  // namespace ddp::nn
