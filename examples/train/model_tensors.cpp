// SPDX-License-Identifier: MIT
#include "model_tensors.h"

#include <string>
#include <utility>

namespace train {
namespace {

ddp::NamedBuffer named(std::string name, const ddp::nn::Tensor& tensor) {
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < tensor.shape().rank(); ++i) {
    shape.push_back(static_cast<std::int64_t>(tensor.shape()[i]));
  }
  return {std::move(name), std::move(shape), tensor.buffer()};
}

}  // namespace

std::vector<ddp::NamedBuffer> parameters_of(const ddp::nn::Module& module) {
  std::vector<ddp::NamedBuffer> tensors;
  for (const ddp::nn::Parameter* parameter : module.parameters()) {
    tensors.push_back(named(parameter->name(), parameter->value()));
  }
  return tensors;
}

std::vector<ddp::NamedBuffer> training_tensors(const ddp::nn::Module& module,
                                               const ddp::nn::Optimizer& optimizer) {
  std::vector<ddp::NamedBuffer> tensors = parameters_of(module);
  for (const ddp::nn::NamedTensor& buffer : module.buffers()) {
    tensors.push_back(named(buffer.name, buffer.value));
  }
  for (const ddp::nn::NamedTensor& state : optimizer.state()) {
    tensors.push_back(named("optimizer." + state.name, state.value));
  }
  return tensors;
}

}  // namespace train
