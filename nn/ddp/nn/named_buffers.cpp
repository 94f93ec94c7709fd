// SPDX-License-Identifier: MIT
#include "ddp/nn/named_buffers.h"

namespace ddp::nn {

std::vector<NamedBuffer> named_buffers(std::span<const NamedTensor> tensors,
                                       const std::string& prefix) {
  std::vector<NamedBuffer> result;
  for (const NamedTensor& tensor : tensors) {
    const auto sizes = tensor.value.shape().sizes();
    result.push_back({prefix + tensor.name, {sizes.begin(), sizes.end()}, tensor.value.buffer()});
  }
  return result;
}

}  // namespace ddp::nn
