// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <stdexcept>

#include "ddp/kernels/adam.h"
#include "ddp/kernels/sgd.h"

namespace ddp {
namespace {

// A NaN is refused, too.
void require_not_negative(const char* option, double value) {
  if (value >= 0) return;
  throw std::invalid_argument(
      fmt::format("[kernels] {} is {}, expected 0 or above", option, value));
}

}  // namespace

void check_options(const SgdStep& step) {
  require_not_negative("sgd_step: momentum", step.momentum);
  require_not_negative("sgd_step: weight_decay", step.weight_decay);
  if (!step.nesterov || step.momentum > 0) return;
  throw std::invalid_argument("[kernels] sgd_step: nesterov needs a momentum other than 0");
}

void check_options(const AdamStep& step) {
  for (const double beta : {step.beta1, step.beta2}) {
    if (beta >= 0 && beta < 1) continue;
    throw std::invalid_argument(
        fmt::format("[kernels] adam_step: a beta is {}, expected 0 <= beta < 1", beta));
  }
  require_not_negative("adam_step: eps", step.eps);
  require_not_negative("adam_step: weight_decay", step.weight_decay);
}

}  // namespace ddp
