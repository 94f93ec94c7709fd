// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"

namespace ddp {

// Keeps the factors of the last steps where the device can read them: on CUDA in pinned memory.
//
// Because of the control vector, the host does not begin a step before the first bucket of the step
// before the last is launched. So with three slots, and one factor per step, no slot is overwritten
// while the device may still read it.
class FactorRing {
 public:
  explicit FactorRing(Device device);

  // The address of a copy of `factor`, which stays valid for the next two calls.
  [[nodiscard]] const double* keep(double factor);

 private:
  static constexpr std::size_t kPlaces = 3;

  Allocation memory_;
  std::size_t kept_ = 0;
};

}  // namespace ddp
