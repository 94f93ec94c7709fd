// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// torch.nn.Dropout, except that the dropped elements are a function of the tape's random key, the
// module's name and the element's place in the global batch, so they are the same for any number of
// ranks. Applied twice in one pass it drops the same elements twice, as would two of one name,
// which a module therefore refuses as children. In evaluation it does nothing.
class Dropout final : public Module {
 public:
  // std::invalid_argument unless the probability is between 0 and 1.
  explicit Dropout(const Scope& scope, double probability = 0.5);

  // input: n x anything.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  double probability_;
  std::uint64_t layer_;
};

}  // namespace ddp::nn
