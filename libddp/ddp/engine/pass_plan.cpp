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

}  // namespace ddp
