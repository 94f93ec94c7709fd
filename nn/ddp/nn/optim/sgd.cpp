// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/sgd.h"

#include <utility>

namespace ddp::nn {

Sgd::Group::Group(ParameterGroup<SgdStep> group)
    : parameters(std::move(group.parameters)),
      options(group.options),
      momentum_buffers(options.momentum == 0 ? std::span<Parameter* const>() : parameters) {}

Sgd::Sgd(Context& context, std::span<Parameter* const> parameters, const SgdStep& options)
    : Sgd(context, {{{parameters.begin(), parameters.end()}, options}}) {}

Sgd::Sgd(Context& context, std::vector<ParameterGroup<SgdStep>> groups)
    : Optimizer(context, groups), groups_(groups.begin(), groups.end()) {}

void Sgd::step(const double* grad_scale) {
  check_scale(grad_scale);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    tensors_.clear();
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      Parameter& parameter = *group.parameters[i];
      if (!parameter.has_grad()) continue;
      const Buffer& value = parameter.value().buffer();
      tensors_.push_back(
          {value, parameter.grad().buffer(),
           group.options.momentum == 0 ? value.slice(0, 0) : group.momentum_buffers[i]});
      parameter.clear_grad();
      parameter.mark_value_changed();
    }
    context().run(cpu::sgd_step, cu::sgd_step, std::span<const SgdTensor>(tensors_),
                  at_its_rate(group.options, g), grad_scale);
  }
}

std::vector<NamedTensor> Sgd::state() const {
  std::vector<NamedTensor> state;
  for (const Group& group : groups_) {
    if (group.options.momentum == 0) continue;
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const Parameter& parameter = *group.parameters[i];
      state.push_back({parameter.name() + ".momentum_buffer",
                       Tensor::view(group.momentum_buffers[i], parameter.value().shape())});
    }
  }
  state.push_back(learning_rates());
  return state;
}

}  // namespace ddp::nn
