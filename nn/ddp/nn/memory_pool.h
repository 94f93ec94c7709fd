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
//
// Where sizes change from step to step, as with images of many sizes, blocks of sizes that do not
// come back would pile up. So before the pool allocates a new block, it frees all idle blocks if
// they are more than twice what was ever in use at once, or if a GPU has no memory left.
class MemoryPool {
 public:
  explicit MemoryPool(Device device);

  // Memory of undefined content. When its last owner releases it, the block returns to the pool, or
  // is freed if the pool is gone.
  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t size_bytes);

  // The number of blocks allocated from the device so far.
  [[nodiscard]] std::size_t allocations() const;
  // The size of all blocks that the pool has now, in use or idle.
  [[nodiscard]] std::size_t size_bytes() const;

 private:
  class FreeBlocks;
  struct Block;

  [[nodiscard]] Allocation allocate_from_device(std::size_t size_bytes);

  Device device_;
  std::shared_ptr<FreeBlocks> free_blocks_;
};

}  // namespace ddp::nn
