// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddp/base/named_buffer.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

// Converts the live tensors of a state_dict() or an Optimizer::state() to the form that checkpoints
// and files take; `prefix` is put before their names. They are views: the tensors must outlive
// them.
[[nodiscard]] std::vector<NamedBuffer> named_buffers(std::span<const NamedTensor> tensors,
                                                     const std::string& prefix = "");

}  // namespace ddp::nn
