// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"

namespace ddp {

// Keeps the factors of the last steps in memory that the device can read (pinned on CUDA).
//
// Three places suffice for one factor per step. ControlVector::reset() blocks the host at the start
// of step k until the device has reached the first bucket of step k - 2. By then the device no
// longer reads the factor of step k - 3, whose place step k overwrites.
class FactorRing {
 public:
  explicit FactorRing(Device device);

  // Stores `factor` and returns its address. The value stays there until the third call after this
  // one.
  [[nodiscard]] const double* keep(double factor);

 private:
  static constexpr std::size_t kPlaces = 3;

  Allocation memory_;
  std::size_t kept_ = 0;
};

}  // namespace ddp
