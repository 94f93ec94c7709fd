// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/optimizer.h"

namespace ddp::nn {

DecaySplit split_by_decay(std::span<Parameter* const> parameters) {
  DecaySplit split;
  for (Parameter* parameter : parameters) {
    const bool decays = parameter->value().shape().rank() > 1;
    (decays ? split.decayed : split.not_decayed).push_back(parameter);
  }
  return split;
}

}  // namespace ddp::nn
