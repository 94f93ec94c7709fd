// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/step_arguments.h"

#include <stdexcept>
#include <string>

#include "ddp/collectives/group_state.h"

namespace ddp {
namespace {

void require_number(const std::string& what, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  throw std::invalid_argument("[ddp] begin_step: " + what + " is " + std::to_string(value) +
                              ", but it must be finite and not negative");
}

}  // namespace

void refuse_step(const ProcessGroup& group, const StepOptions& step) {
  require_number("the number of samples", step.samples);
  require_number("data_seconds", step.data_seconds);
  throw std::invalid_argument("[ddp] begin_step: is_active = false says that the data of " +
                              group.state().names.rank(group.rank()) +
                              " ran out before this step; samples, which is 1 by default, must "
                              "then be 0");
}

void refuse_part(ProcessGroup& group, int data_rank) {
  const std::string text = "[ddp] rank " + std::to_string(group.rank()) + " got rank " +
                           std::to_string(data_rank) +
                           "'s part of the data: give the sampler this group's rank()";
  group.abort(text);
  throw std::logic_error(text);
}

}  // namespace ddp
