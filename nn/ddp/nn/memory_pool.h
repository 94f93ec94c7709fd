// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include "ddp/base/allocation.h"
#include "ddp/base/device.h"

namespace ddp::nn {

// Zeroed memory on either kind of device.
[[nodiscard]] Allocation allocate(std::size_t size_bytes, Device device);

// Keeps freed blocks for the next tensor of the same size. A training step repeats its sizes, so
// that from the second step on no memory is asked for (cudaMalloc and cudaFree would wait for the
// device). A block is used again at once: on CUDA that is right if everything that touches the
// pool's memory runs on one stream, so a pool belongs to one Context. Thread-safe.
//
// Where sizes change from step to step, as with images of many sizes, blocks that nobody asks for
// again would pile up. So before it asks for a new block it frees all that lie idle, if they are
// more than twice what was ever in use at once.
class MemoryPool {
 public:
  explicit MemoryPool(Device device);

  // Of undefined content. The last owner's release gives the block back, or frees it if the pool
  // is gone by then.
  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t size_bytes);

  // Blocks ever asked of the device.
  [[nodiscard]] std::size_t allocations() const;
  // Of the blocks that it has now, in use or idle.
  [[nodiscard]] std::size_t size_bytes() const;

 private:
  class FreeBlocks;
  struct Block;

  Device device_;
  std::shared_ptr<FreeBlocks> free_blocks_;
};

}  // namespace ddp::nn
