// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddp/base/named_buffer.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

// The live tensors of a state_dict() or an Optimizer::state() as checkpoints and files take them,
// their names behind `prefix`. Views: the tensors must live as long.
[[nodiscard]] std::vector<NamedBuffer> named_buffers(std::span<const NamedTensor> tensors,
                                                     const std::string& prefix = "");

}  // namespace ddp::nn
