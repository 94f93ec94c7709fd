// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/dropout.h"

#include <stdexcept>
#include <string>

#include "ddp/base/random.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {

Dropout::Dropout(const Scope& scope, double probability)
    : probability_(probability), layer_(stream_of(scope.name())) {
  if (!(probability >= 0 && probability <= 1)) {
    throw std::invalid_argument("[nn] Dropout " + scope.name() + ": the probability is " +
                                std::to_string(probability) + ", expected 0 to 1");
  }
  register_dropout(scope.name());
}

Variable Dropout::forward(Tape& tape, const Variable& input) {
  if (!is_training() || probability_ == 0) return input;
  return dropout(tape, input, probability_, layer_);
}

}  // namespace ddp::nn
