// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// torch.nn.Dropout, but what is dropped is a function of the tape's random key, of the module's
// name and of the element's place in the global batch: equal for any number of ranks. Applied twice
// in one pass it drops the same elements twice. In evaluation it does nothing.
class Dropout final : public Module {
 public:
  // std::invalid_argument unless the probability is from 0 to 1.
  explicit Dropout(const Scope& scope, double probability = 0.5);

  // input: n x anything.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  double probability_;
  std::uint64_t layer_;
};

}  // namespace ddp::nn
