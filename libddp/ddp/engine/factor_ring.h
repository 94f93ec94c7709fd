// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"

namespace ddp {

// Factors of the last steps, where the device can read them: on CUDA in pinned memory.
//
// The control vector keeps the host from beginning a step before the first bucket of the step
// before the last is on its way. So with three places none is written that is still to be read, if
// there is one factor a step.
class FactorRing {
 public:
  explicit FactorRing(Device device);

  // Where `factor` stays for the next two calls.
  [[nodiscard]] const double* keep(double factor);

 private:
  static constexpr std::size_t kPlaces = 3;

  Allocation memory_;
  std::size_t kept_ = 0;
};

}  // namespace ddp
