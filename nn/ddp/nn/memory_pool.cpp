// SPDX-License-Identifier: MIT
#include "ddp/nn/memory_pool.h"

#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ddp/cuda/cuda.h"

namespace ddp::nn {

Allocation allocate(std::size_t size_bytes, Device device) {
  return device.is_cuda() ? cu::allocate_device(size_bytes, device) : allocate_host(size_bytes);
}

class MemoryPool::FreeBlocks {
 public:
  std::optional<Allocation> take(std::size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    std::vector<Allocation>& blocks = by_size_[size_bytes];
    if (blocks.empty()) {
      ++misses_;
      return std::nullopt;
    }
    Allocation block = std::move(blocks.back());
    blocks.pop_back();
    return block;
  }

  void give_back(Allocation block) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      by_size_[block.size_bytes()].push_back(std::move(block));
    } catch (...) {
      // No memory for the list: the block is simply freed.
    }
  }

  std::size_t misses() const {
    const std::lock_guard lock(mutex_);
    return misses_;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<Allocation>> by_size_;
  std::size_t misses_ = 0;
};

struct MemoryPool::Block {
  Block(std::weak_ptr<FreeBlocks> pool, Allocation block)
      : home(std::move(pool)), memory(std::move(block)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    if (const auto pool = home.lock()) pool->give_back(std::move(memory));
  }

  std::weak_ptr<FreeBlocks> home;
  Allocation memory;
};

MemoryPool::MemoryPool(Device device)
    : device_(device), free_blocks_(std::make_shared<FreeBlocks>()) {}

std::shared_ptr<void> MemoryPool::allocate(std::size_t size_bytes) {
  std::optional<Allocation> memory = free_blocks_->take(size_bytes);
  if (!memory) memory = nn::allocate(size_bytes, device_);
  const auto block = std::make_shared<Block>(free_blocks_, std::move(*memory));
  return {block, block->memory.data()};
}

std::size_t MemoryPool::allocations() const { return free_blocks_->misses(); }

}  // namespace ddp::nn
