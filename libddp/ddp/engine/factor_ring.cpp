// SPDX-License-Identifier: MIT
#include "ddp/engine/factor_ring.h"

#include "ddp/cuda/cuda.h"

namespace ddp {

FactorRing::FactorRing(Device device) {
  constexpr std::size_t size_bytes = kPlaces * sizeof(double);
  const cu::DeviceGuard guard(device);
  memory_ = device.is_cuda() ? cu::allocate_pinned(size_bytes) : allocate_host(size_bytes);
}

const double* FactorRing::keep(double factor) {
  double* place = static_cast<double*>(memory_.data()) + kept_++ % kPlaces;
  *place = factor;
  return place;
}

}  // namespace ddp
