// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/flat_state.h"

#include <stdexcept>
#include <string>

#include "ddp/base/allocation.h"

namespace ddp::nn {
namespace {

std::size_t padded_count(const Buffer& value) {
  const std::size_t line = kHostAlignment / size_of(value.dtype);
  return (value.count + line - 1) / line * line;
}

void check_alike(const Parameter& parameter, const Parameter& first) {
  const Buffer &own = parameter.value().buffer(), &expected = first.value().buffer();
  if (own.dtype == expected.dtype && own.device == expected.device) return;
  throw std::invalid_argument("[nn] an optimizer's parameters differ: " + parameter.name() +
                              " is " + to_string(own) + ", " + first.name() + " is " +
                              to_string(expected));
}

}  // namespace

FlatState::FlatState(std::span<Parameter* const> parameters) {
  if (parameters.empty()) return;
  std::size_t total = 0;
  for (const Parameter* parameter : parameters) {
    check_alike(*parameter, *parameters.front());
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
