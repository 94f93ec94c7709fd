// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/optimizer.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_set>

namespace ddp::nn {

void Optimizer::step() {
  if (parameters_.empty()) return;
  GradientOwner* owner = parameters_.front()->grad_owner();
  const auto other = std::ranges::find_if(
      parameters_, [&](const Parameter* each) { return each->grad_owner() != owner; });
  if (other != parameters_.end()) {
    throw std::logic_error("[nn] an optimizer has '" + parameters_.front()->name() + "' and '" +
                           (*other)->name() +
                           "', of which one DistributedModule has only one: each needs an "
                           "optimizer of its own");
  }
  owner == nullptr ? step(nullptr) : owner->step(*this);
}

void Optimizer::check_each_is_once() const {
  std::unordered_set<const Parameter*> known;
  for (const Parameter* parameter : parameters_) {
    if (known.insert(parameter).second) continue;
    throw std::invalid_argument("[nn] an optimizer has '" + parameter->name() +
                                "' twice: a parameter belongs to one group");
  }
}

DecaySplit split_by_decay(std::span<Parameter* const> parameters) {
  DecaySplit split;
  for (Parameter* parameter : parameters) {
    const bool decays = parameter->value().shape().rank() > 1;
    (decays ? split.decayed : split.not_decayed).push_back(parameter);
  }
  return split;
}

}  // namespace ddp::nn
