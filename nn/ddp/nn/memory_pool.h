// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"

namespace ddp::nn {

// Zeroed memory on either kind of device.
[[nodiscard]] Allocation allocate(std::size_t size_bytes, Device device);

// Keeps freed blocks for later tensors of the same size. A training step repeats its sizes, so from
// the second step on no device memory is allocated (cudaMalloc and cudaFree would wait for the
// device). A freed block is reused at once. On CUDA that is correct only if all work on the pool's
// memory runs on one stream, so each pool belongs to one Context. Thread-safe.
class MemoryPool {
 public:
  explicit MemoryPool(Device device);

  // Memory of undefined content. When its last owner releases it, the block returns to the pool, or
  // is freed if the pool is gone.
  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t size_bytes);

  // The number of blocks allocated from the device so far.
  [[nodiscard]] std::size_t allocations() const;

 private:
  class FreeBlocks;
  struct Block;

  Device device_;
  std::shared_ptr<FreeBlocks> free_blocks_;
};

}  // namespace ddp::nn
