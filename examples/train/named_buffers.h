// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddp/io/named_buffer.h"
#include "ddp/nn/tensor.h"

namespace train {

// The live tensors as files have them, their names behind `prefix`.
[[nodiscard]] std::vector<ddp::NamedBuffer> named_buffers(
    std::span<const ddp::nn::NamedTensor> tensors, const std::string& prefix = "");

}  // namespace train
