// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/optimizer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "ddp/nn/optim/null_pointers.h"
#include "ddp/nn/optim/scaled_gradients.h"

namespace ddp::nn {

void Optimizer::step() {
  // Frozen parameters have no gradient, and no owner if they were frozen before there was one.
  const auto is_trained = [](const Parameter* each) {
    return each->requires_grad() || each->grad_owner() != nullptr;
  };
  const auto first = std::ranges::find_if(parameters_, is_trained);
  if (first == parameters_.end()) return;
  GradientOwner* owner = (*first)->grad_owner();
  const auto other = std::find_if(first, parameters_.end(), [&](const Parameter* each) {
    return is_trained(each) && each->grad_owner() != owner;
  });
  if (other != parameters_.end()) {
    throw std::logic_error("[nn] an optimizer has '" + (*first)->name() + "' and '" +
                           (*other)->name() +
                           "', of which one DistributedModule has only one: each needs an "
                           "optimizer of its own");
  }
  owner == nullptr ? step(nullptr) : owner->step(*this);
}

double Optimizer::learning_rate() const { return rates().front(); }

void Optimizer::set_learning_rate(double learning_rate) {
  std::ranges::fill(rates(), checked_rate(learning_rate));
}

double Optimizer::group_learning_rate(std::size_t group) const { return rate_of(group); }

void Optimizer::set_group_learning_rate(std::size_t group, double learning_rate) {
  rate_of(group) = checked_rate(learning_rate);
}

double& Optimizer::rate_of(std::size_t group) const {
  if (group < group_count()) return rates()[group];
  throw std::out_of_range("[nn] an optimizer has " + std::to_string(group_count()) +
                          " groups, so none with number " + std::to_string(group));
}

void Optimizer::check_scale(const double* grad_scale) const {
  if (grad_scale == nullptr) refuse_scaled_gradients("Optimizer::step(nullptr)", parameters_);
}

double Optimizer::checked_rate(double learning_rate) {
  if (learning_rate >= 0) return learning_rate;
  throw std::invalid_argument("[nn] an optimizer's learning rate is " +
                              std::to_string(learning_rate) + ", but it must be 0 or above");
}

void Optimizer::check_group(std::span<Parameter* const> parameters) const {
  refuse_null_pointers("an optimizer", parameters);
  for (const Parameter* parameter : parameters) {
    const Buffer &own = parameter->value().buffer(), &first = parameters.front()->value().buffer();
    if (own.device != context_.device()) {
      throw std::invalid_argument("[nn] an optimizer's context is on " +
                                  to_string(context_.device()) + ", but '" + parameter->name() +
                                  "' is on " + to_string(own.device));
    }
    if (own.dtype != DType::kFloat32 && own.dtype != DType::kFloat64) {
      throw std::invalid_argument("[nn] an optimizer steps float32 and float64, but '" +
                                  parameter->name() + "' is " + to_string(own) +
                                  ": for 16-bit products keep the parameters in float32 and give "
                                  "the Tape the 16-bit type");
    }
    if (own.dtype == first.dtype) continue;
    throw std::invalid_argument("[nn] an optimizer's parameters differ: " + parameter->name() +
                                " is " + to_string(own) + ", " + parameters.front()->name() +
                                " is " + to_string(first));
  }
}

void Optimizer::check_parameters() const {
  if (parameters_.empty()) throw std::invalid_argument("[nn] an optimizer has no parameters");
  std::unordered_map<std::string, const Parameter*> known;
  for (const Parameter* parameter : parameters_) {
    const auto [other, is_new] = known.emplace(parameter->name(), parameter);
    if (is_new) continue;
    throw std::invalid_argument(
        other->second == parameter
            ? "[nn] an optimizer has '" + parameter->name() +
                  "' twice: a parameter belongs to one group"
            : "[nn] an optimizer has two parameters named '" + parameter->name() +
                  "', which a checkpoint cannot tell apart: give their modules different scopes");
  }
}

DecaySplit split_by_decay(std::span<Parameter* const> parameters) {
  refuse_null_pointers("split_by_decay", parameters);
  DecaySplit split;
  for (Parameter* parameter : parameters) {
    const bool decays = parameter->value().shape().rank() > 1;
    (decays ? split.decayed : split.not_decayed).push_back(parameter);
  }
  return split;
}

}  // namespace ddp::nn
