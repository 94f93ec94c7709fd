// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/sgd.h"

#include <stdexcept>

namespace ddp::nn {
namespace {

// Every parameter's velocity starts on a cache line of its own.
std::size_t padded_count(const Parameter& parameter) {
  const std::size_t line = kHostAlignment / size_of(parameter.value().dtype());
  return (parameter.value().count() + line - 1) / line * line;
}

void check_dtypes(std::span<Parameter* const> parameters) {
  for (const Parameter* parameter : parameters) {
    const DType first = parameters.front()->value().dtype();
    if (parameter->value().dtype() == first) continue;
    throw std::invalid_argument("[nn] Sgd: " + parameter->name() + " is " +
                                std::string(to_string(parameter->value().dtype())) + " but " +
                                parameters.front()->name() + " is " +
                                std::string(to_string(first)));
  }
}

}  // namespace

Sgd::Sgd(Context& context, std::span<Parameter* const> parameters, const SgdStep& options)
    : context_(context), options_(options) {
  check_dtypes(parameters);
  std::size_t total = 0;
  for (Parameter* parameter : parameters) {
    const Buffer none{nullptr, 0, parameter->value().dtype(), parameter->value().device()};
    entries_.push_back({parameter, none});
    total += padded_count(*parameter);
  }
  if (options.momentum == 0 || parameters.empty()) return;
  velocities_ = Tensor::zeros({total}, parameters.front()->value().dtype(), context.device());
  std::size_t offset = 0;
  for (Entry& entry : entries_) {
    entry.velocity = velocities_.buffer().slice(offset, entry.parameter->value().count());
    offset += padded_count(*entry.parameter);
  }
}

void Sgd::step(const double* grad_scale) {
  for (const Entry& entry : entries_) {
    Parameter& parameter = *entry.parameter;
    if (!parameter.has_grad()) continue;
    context_.run(cpu::sgd_step, cu::sgd_step, parameter.value().buffer(), parameter.grad().buffer(),
                 entry.velocity, options_, grad_scale);
    parameter.clear_grad();
  }
}

std::vector<NamedTensor> Sgd::state() const {
  std::vector<NamedTensor> state;
  if (options_.momentum == 0) return state;
  for (const Entry& entry : entries_) {
    state.push_back({entry.parameter->name() + ".velocity",
                     Tensor::view(entry.velocity, entry.parameter->value().shape())});
  }
  return state;
}

}  // namespace ddp::nn
