// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/adam.h"

#include <cstdint>
#include <utility>

namespace ddp::nn {

Adam::Group::Group(ParameterGroup<AdamStep> group)
    : parameters(std::move(group.parameters)),
      options(group.options),
      exp_avgs(parameters),
      exp_avg_sqs(parameters),
      steps(Tensor::zeros({parameters.size()}, DType::kInt64)) {}

Adam::Adam(Context& context, std::span<Parameter* const> parameters, const AdamStep& options)
    : Adam(context, {{{parameters.begin(), parameters.end()}, options}}) {}

Adam::Adam(Context& context, std::vector<ParameterGroup<AdamStep>> groups)
    : Optimizer(context, groups), groups_(groups.begin(), groups.end()) {}

void Adam::step(const double* grad_scale) {
  check_scale(grad_scale);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    tensors_.clear();
    const std::span<std::int64_t> steps = group.steps.buffer().as<std::int64_t>();
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      Parameter& parameter = *group.parameters[i];
      if (!parameter.has_grad()) continue;
      tensors_.push_back({parameter.value().buffer(), parameter.grad().buffer(), group.exp_avgs[i],
                          group.exp_avg_sqs[i], ++steps[i]});
      parameter.clear_grad();
      parameter.mark_value_changed();
    }
    context().run(cpu::adam_step, cu::adam_step, std::span<const AdamTensor>(tensors_),
                  at_its_rate(group.options, g), grad_scale);
  }
}

std::vector<NamedTensor> Adam::state() const {
  std::vector<NamedTensor> state;
  for (const Group& group : groups_) {
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const std::string& name = group.parameters[i]->name();
      const Shape& shape = group.parameters[i]->value().shape();
      state.push_back({name + ".exp_avg", Tensor::view(group.exp_avgs[i], shape)});
      state.push_back({name + ".exp_avg_sq", Tensor::view(group.exp_avg_sqs[i], shape)});
      state.push_back({name + ".step", Tensor::view(group.steps.buffer().slice(i, 1), {})});
    }
  }
  state.push_back(learning_rates());
  return state;
}

}  // namespace ddp::nn
