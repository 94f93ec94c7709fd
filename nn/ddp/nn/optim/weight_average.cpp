// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/weight_average.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/binary.h"
#include "ddp/nn/optim/null_pointers.h"

namespace ddp::nn {

WeightAverage::WeightAverage(Context& context, std::span<Parameter* const> parameters,
                             const WeightAverageOptions& options)
    : context_(context),
      parameters_(parameters.begin(), parameters.end()),
      decay_(options.decay),
      updates_(Tensor::zeros({}, DType::kInt64)) {
  if (decay_ && !(*decay_ >= 0 && *decay_ <= 1)) {
    throw std::invalid_argument("[nn] the decay of a WeightAverage is " + std::to_string(*decay_) +
                                ", expected 0 to 1");
  }
  refuse_null_pointers("a WeightAverage", parameters);
  for (const Parameter* parameter : parameters_) {
    const Tensor& value = parameter->value();
    averages_.push_back(Tensor::zeros(value.shape(), value.dtype(), value.device()));
  }
}

void WeightAverage::update() {
  check_not_swapped("update");
  std::int64_t& updates = updates_.buffer().as<std::int64_t>()[0];
  const double share = 1 / static_cast<double>(updates + 1);
  const double weight = updates == 0 || !decay_ ? share : 1 - *decay_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Buffer& average = averages_[i].buffer();
    context_.run_any_float(cpu::binary, cu::binary, average, parameters_[i]->value().buffer(),
                           GradientTarget{average}, BinaryFunction{BinaryKind::kMix, weight});
  }
  ++updates;
}

void WeightAverage::swap() {
  if (updates_.buffer().as<std::int64_t>()[0] == 0) {
    throw std::logic_error("[nn] WeightAverage::swap: there is no average before an update()");
  }
  // For all of them, since a lack of memory must not leave some of them swapped.
  std::size_t most = 0;
  for (const Tensor& average : averages_) most = std::max(most, average.buffer().size_bytes());
  const Tensor scratch = context_.empty({most}, DType::kUInt8);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Buffer& value = parameters_[i]->value().buffer();
    const Buffer& average = averages_[i].buffer();
    Buffer kept = value;
    kept.data = scratch.buffer().data;
    copy(value, kept, context_.stream());
    copy(average, value, context_.stream());
    copy(kept, average, context_.stream());
    parameters_[i]->mark_value_changed();
  }
  is_swapped_ = !is_swapped_;
}

std::vector<NamedTensor> WeightAverage::state() const {
  check_not_swapped("state");
  std::vector<NamedTensor> state;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    state.push_back({parameters_[i]->name(), averages_[i]});
  }
  state.push_back({"updates", updates_});
  return state;
}

void WeightAverage::check_not_swapped(const char* call) const {
  if (!is_swapped_) return;
  throw std::logic_error("[nn] WeightAverage::" + std::string(call) +
                         ": the parameters hold the averages: call swap() once more before it");
}

}  // namespace ddp::nn
