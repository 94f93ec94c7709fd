// SPDX-License-Identifier: MIT
#include "ddp/engine/pass_plan.h"

#include <stdexcept>
#include <string>

namespace ddp {

void PassPlan::announce(int passes) {
  if (passes < 1) {
    throw std::invalid_argument("[ddp] accumulate(" + std::to_string(passes) +
                                "): a step needs at least one pass");
  }
  left_ = passes;
}

void PassPlan::begin() {
  begins_ = reduces_;
  reduces_ = guards_ == 0 && left_ <= 1;
}

void PassPlan::end() {
  if (left_ > 0) --left_;
}

}  // namespace ddp
