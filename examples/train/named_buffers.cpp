// SPDX-License-Identifier: MIT
#include "named_buffers.h"

#include <utility>

namespace train {

std::vector<ddp::NamedBuffer> named_buffers(std::span<const ddp::nn::NamedTensor> tensors,
                                            const std::string& prefix) {
  std::vector<ddp::NamedBuffer> result;
  for (const ddp::nn::NamedTensor& tensor : tensors) {
    std::vector<std::int64_t> shape;
    for (std::size_t i = 0; i < tensor.value.shape().rank(); ++i) {
      shape.push_back(static_cast<std::int64_t>(tensor.value.shape()[i]));
    }
    result.push_back({prefix + tensor.name, std::move(shape), tensor.value.buffer()});
  }
  return result;
}

}  // namespace train
