// SPDX-License-Identifier: MIT
#include "ddp/io/host_copy.h"

#include <cstddef>

#include "ddp/buffer_ops/host_transfer.h"

namespace ddp {

void HostCopy::take(std::span<const NamedBuffer> tensors, Stream stream) {
  reserve(tensors);
  tensors_.assign(tensors.begin(), tensors.end());
  auto* memory = static_cast<std::byte*>(memory_.data());
  HostTransfer transfer(stream);
  for (NamedBuffer& tensor : tensors_) {
    const Buffer source = tensor.buffer;
    tensor.buffer = {memory, source.count, source.dtype, kCpuDevice};
    memory += host_aligned(source.size_bytes());
    transfer.copy(source, tensor.buffer);
  }
  transfer.wait();
}

void HostCopy::reserve(std::span<const NamedBuffer> tensors) {
  std::size_t total_bytes = 0;
  for (const NamedBuffer& tensor : tensors) total_bytes += host_aligned(tensor.buffer.size_bytes());
  if (total_bytes > memory_.size_bytes()) memory_ = allocate_host(total_bytes);
}

}  // namespace ddp
