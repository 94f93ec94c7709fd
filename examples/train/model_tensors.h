// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "ddp/io/named_buffer.h"
#include "ddp/nn/module.h"
#include "ddp/nn/optim/optimizer.h"

namespace train {

// The live parameters, named as in PyTorch.
[[nodiscard]] std::vector<ddp::NamedBuffer> parameters_of(const ddp::nn::Module& module);

// All live tensors that a training changes: parameters, the module's buffers, and the optimizer's
// state as "optimizer.fc1.weight.velocity".
[[nodiscard]] std::vector<ddp::NamedBuffer> training_tensors(const ddp::nn::Module& module,
                                                             const ddp::nn::Optimizer& optimizer);

}  // namespace train
