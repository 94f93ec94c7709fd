// SPDX-License-Identifier: MIT
#include "ddp/samplers/sampler.h"

#include <stdexcept>
#include <string>

namespace ddp {

EpochPlan Sampler::next_epoch() {
  EpochPlan result = plan(next_);
  next_ = {.epoch = next_.epoch + 1, .consumed = 0};
  return result;
}

void Sampler::seek(const DataPosition& position) {
  if (position.epoch < 0 || position.consumed < 0) {
    throw std::invalid_argument("[sampler] cannot go to epoch " + std::to_string(position.epoch) +
                                ", sample " + std::to_string(position.consumed) +
                                ": neither may be below 0");
  }
  next_ = position;
}

}  // namespace ddp
