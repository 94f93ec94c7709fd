// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/system/shared_memory.h"
#include "ddp/collectives/shm/shm_segment.h"

namespace ddp::shm {

// Memory that every rank of a group can reach: each rank allocates its own, and maps another rank's
// when it first hears of it.
//
// Thread safety: allocate, release and find from any thread; at() from one at a time.
class Heap {
 public:
  Heap(const Segment& segment, int rank);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Zeroed memory, all of it reserved now: throws SystemError if memory is short.
  [[nodiscard]] Allocation allocate(std::size_t size_bytes);
  // The region by which others find the elements; a null region if they are not in this heap.
  [[nodiscard]] Region find(const Buffer& buffer) const;
  // The address of a rank's region in this process.
  [[nodiscard]] std::byte* at(int rank, const Region& region);

 private:
  struct Block {
    std::uint64_t number;
    int descriptor;  // a file descriptor of the rank that owns the block
    std::shared_ptr<SharedMemory> memory;
  };

  // Outlives the heap if memory from it does.
  struct Own {
    std::mutex mutex;
    std::uint64_t allocated = 0;
    std::vector<Block> blocks;

    void release(const void* data);
  };

  [[nodiscard]] std::byte* find_own(std::uint64_t number) const;
  [[nodiscard]] std::byte* map(int rank, const Region& region);

  const Segment& segment_;
  int rank_;
  std::shared_ptr<Own> own_ = std::make_shared<Own>();
  std::vector<std::vector<Block>> mapped_;  // by rank
};

}  // namespace ddp::shm
