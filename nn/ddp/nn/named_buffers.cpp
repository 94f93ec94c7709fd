// SPDX-License-Identifier: MIT
#include "ddp/nn/named_buffers.h"

#include <cstdint>
#include <utility>

namespace ddp::nn {

std::vector<NamedBuffer> named_buffers(std::span<const NamedTensor> tensors,
                                       const std::string& prefix) {
  std::vector<NamedBuffer> result;
  for (const NamedTensor& tensor : tensors) {
    std::vector<std::int64_t> shape;
    for (std::size_t i = 0; i < tensor.value.shape().rank(); ++i) {
      shape.push_back(static_cast<std::int64_t>(tensor.value.shape()[i]));
    }
    result.push_back({prefix + tensor.name, std::move(shape), tensor.value.buffer()});
  }
  return result;
}

}  // namespace ddp::nn
