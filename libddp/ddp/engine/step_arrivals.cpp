// SPDX-License-Identifier: MIT
#include "ddp/engine/step_arrivals.h"

namespace ddp {

StepArrivals::StepArrivals(Device device, std::size_t count) : count_(count) {
  const cu::DeviceGuard guard(device);
  memory_ = cu::allocate_pinned(kCapacity * count * sizeof(double));
  for (std::size_t i = 0; i < kCapacity; ++i) {
    ring_.push_back({static_cast<double*>(memory_.data()) + i * count, cu::Event(device)});
  }
}

void StepArrivals::copy(const double* numbers, Stream stream) {
  Arrival& arrival = ring_[(first_ + size_) % kCapacity];
  cu::copy_async(arrival.numbers, numbers, count_ * sizeof(double), stream);
  arrival.copied.record(stream);
}

double* StepArrivals::arrived(Wait wait) const {
  const Arrival& first = ring_[first_];
  if (wait == Wait::kYes) {
    first.copied.synchronize();
  } else if (!first.copied.done()) {
    return nullptr;
  }
  return first.numbers;
}

void StepArrivals::pop() {
  first_ = (first_ + 1) % kCapacity;
  --size_;
}

}  // namespace ddp
