// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/sequential.h"

namespace ddp::nn {

void Sequential::append(std::unique_ptr<Module> module) {
  register_module(*module);
  layers_.emplace_back(
      [layer = module.get()](Tape& tape, const Variable& x) { return layer->forward(tape, x); });
  modules_.push_back(std::move(module));
}

Variable Sequential::forward(Tape& tape, const Variable& input) {
  Variable x = input;
  for (const Function& layer : layers_) x = layer(tape, x);
  return x;
}

}  // namespace ddp::nn
