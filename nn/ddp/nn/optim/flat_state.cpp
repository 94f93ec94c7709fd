// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/flat_state.h"

#include "ddp/base/allocation.h"
#include "ddp/base/round_up.h"

namespace ddp::nn {
namespace {

std::size_t padded_count(const Buffer& value) {
  const std::size_t line = kHostAlignment / size_of(value.dtype);
  return round_up(value.count, line);
}

}  // namespace

FlatState::FlatState(std::span<Parameter* const> parameters) {
  if (parameters.empty()) return;
  std::size_t total = 0;
  for (const Parameter* parameter : parameters) {
    total += padded_count(parameter->value().buffer());
  }
  const Tensor& first = parameters.front()->value();
  memory_ = Tensor::zeros({total}, first.dtype(), first.device());
  std::size_t offset = 0;
  for (const Parameter* parameter : parameters) {
    const Buffer& value = parameter->value().buffer();
    buffers_.push_back(memory_.buffer().slice(offset, value.count));
    offset += padded_count(value);
  }
}

}  // namespace ddp::nn
