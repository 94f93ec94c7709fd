// SPDX-License-Identifier: MIT
#include "ddp/nn/module.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ddp::nn {
namespace {

[[noreturn]] void refuse_name(const char* what, const std::string& name) {
  throw std::invalid_argument("[nn] two " + std::string(what) + " are named '" + name +
                              "': give each child a scope of its own, as in "
                              "scope.child(\"fc2\"), and register it once");
}

}  // namespace

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

void Module::set_requires_grad(bool requires_grad) {
  for (Parameter* parameter : parameters_) parameter->set_requires_grad(requires_grad);
}

void Module::register_parameter(Parameter& parameter) {
  check_new_parameter(parameter);
  check_is_no_child(parameter.name());
  parameters_.push_back(&parameter);
}

void Module::register_buffer(NamedTensor buffer) {
  check_new_buffer(buffer);
  check_is_no_child(buffer.name);
  buffers_.push_back(std::move(buffer));
}

void Module::register_dropout(std::string name) {
  check_new_dropout(name);
  check_is_no_child(name);
  dropouts_.push_back(std::move(name));
}

void Module::register_module(Module& child) {
  for (const Parameter* parameter : child.parameters_) {
    check_new_parameter(*parameter);
    check_is_no_child(parameter->name());
  }
  for (const NamedTensor& buffer : child.buffers_) {
    check_new_buffer(buffer);
    check_is_no_child(buffer.name);
  }
  for (const std::string& name : child.dropouts_) {
    check_new_dropout(name);
    check_is_no_child(name);
  }
  child.is_child_ = true;
  children_.push_back(&child);
  parameters_.insert(parameters_.end(), child.parameters_.begin(), child.parameters_.end());
  buffers_.insert(buffers_.end(), child.buffers_.begin(), child.buffers_.end());
  dropouts_.insert(dropouts_.end(), child.dropouts_.begin(), child.dropouts_.end());
}

void Module::check_new_parameter(const Parameter& parameter) const {
  const auto is_it = [&](const Parameter* each) { return each->name() == parameter.name(); };
  if (std::ranges::any_of(parameters_, is_it)) refuse_name("parameters", parameter.name());
}

void Module::check_new_buffer(const NamedTensor& buffer) const {
  const auto is_it = [&](const NamedTensor& each) { return each.name == buffer.name; };
  if (std::ranges::any_of(buffers_, is_it)) refuse_name("buffers", buffer.name);
}

void Module::check_new_dropout(const std::string& name) const {
  if (std::ranges::count(dropouts_, name) > 0) refuse_name("dropouts", name);
}

void Module::check_is_no_child(const std::string& name) const {
  if (!is_child_) return;
  throw std::logic_error(
      "[nn] '" + name +
      "' is registered with a module that is a child of another one already, which "
      "would not know it: add a module to its parent after its own parts");
}

}  // namespace ddp::nn
