// SPDX-License-Identifier: MIT
#include "ddp/nn/module.h"

namespace ddp::nn {

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<NamedTensor> state;
  for (const Parameter* parameter : parameters_) {
    state.push_back({parameter->name(), parameter->value()});
  }
  state.insert(state.end(), buffers_.begin(), buffers_.end());
  return state;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> all{this};
  for (Module* child : children_) {
    const std::vector<Module*> below = child->modules();
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

void Module::train(bool is_training) {
  for (Module* module : modules()) module->is_training_ = is_training;
}

void Module::add(Module& child) {
  children_.push_back(&child);
  parameters_.insert(parameters_.end(), child.parameters_.begin(), child.parameters_.end());
  buffers_.insert(buffers_.end(), child.buffers_.begin(), child.buffers_.end());
}

}  // namespace ddp::nn
