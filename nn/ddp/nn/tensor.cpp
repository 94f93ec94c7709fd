// SPDX-License-Identifier: MIT
#include "ddp/nn/tensor.h"

#include <stdexcept>

#include "ddp/base/allocation.h"
#include "ddp/nn/memory_pool.h"

namespace ddp::nn {

Tensor::Tensor(const Buffer& buffer, const Shape& shape, std::shared_ptr<void> storage)
    : buffer_(buffer), shape_(shape), storage_(std::move(storage)) {
  if (buffer.count == shape.count()) return;
  throw std::invalid_argument("[nn] " + to_string(buffer) + " does not have the shape " +
                              to_string(shape));
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Buffer buffer{nullptr, shape.count(), dtype, device};
  auto memory = std::make_shared<Allocation>(allocate(buffer.size_bytes(), device));
  buffer.data = memory->data();
  return {buffer, shape, std::move(memory)};
}

}  // namespace ddp::nn
