// SPDX-License-Identifier: MIT
#include "ddp/nn/memory_pool.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/cuda/cuda.h"

namespace ddp::nn {

Allocation allocate(std::size_t size_bytes, Device device) {
  return device.is_cuda() ? cu::allocate_device(size_bytes, device) : allocate_host(size_bytes);
}

class MemoryPool::FreeBlocks {
 public:
  std::optional<Allocation> take(std::size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = by_size_.find(size_bytes);
    if (found == by_size_.end() || found->second.empty()) return std::nullopt;
    Allocation block = std::move(found->second.back());
    found->second.pop_back();
    idle_bytes_ -= size_bytes;
    count_used(size_bytes);
    return block;
  }

  void add_used(std::size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    ++allocations_;
    count_used(size_bytes);
  }

  void give_back(Allocation block) noexcept {
    const std::lock_guard lock(mutex_);
    const std::size_t size_bytes = block.size_bytes();
    used_bytes_ -= size_bytes;
    try {
      by_size_[size_bytes].push_back(std::move(block));
      idle_bytes_ += size_bytes;
    } catch (...) {
      // No memory for the list: the block is simply freed.
    }
  }

  void free_surplus() {
    std::unique_lock lock(mutex_);
    const bool has_surplus = idle_bytes_ > kMostIdle * most_used_bytes_;
    lock.unlock();
    if (has_surplus) free_idle();
  }

  // Returns how many bytes were idle.
  std::size_t free_idle() {
    BlocksBySize idle;  // freed after the lock has been released
    const std::lock_guard lock(mutex_);
    idle.swap(by_size_);
    return std::exchange(idle_bytes_, 0);
  }

  std::size_t allocations() const {
    const std::lock_guard lock(mutex_);
    return allocations_;
  }

  std::size_t size_bytes() const {
    const std::lock_guard lock(mutex_);
    return used_bytes_ + idle_bytes_;
  }

 private:
  using BlocksBySize = std::unordered_map<std::size_t, std::vector<Allocation>>;

  // Sizes that repeat never come near it: a network halves its activations every few layers, so all
  // that it takes one after the other is not much more than what it has at once.
  static constexpr std::size_t kMostIdle = 2;

  void count_used(std::size_t size_bytes) {
    used_bytes_ += size_bytes;
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  }

  mutable std::mutex mutex_;
  BlocksBySize by_size_;
  std::size_t used_bytes_ = 0;
  std::size_t most_used_bytes_ = 0;
  std::size_t idle_bytes_ = 0;
  std::size_t allocations_ = 0;
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

// A device that is out of memory may have enough without the idle blocks.
Allocation MemoryPool::allocate_from_device(std::size_t size_bytes) {
  free_blocks_->free_surplus();
  try {
    return nn::allocate(size_bytes, device_);
  } catch (const CudaError&) {
    if (free_blocks_->free_idle() == 0) throw;
  }
  return nn::allocate(size_bytes, device_);
}

std::shared_ptr<void> MemoryPool::allocate(std::size_t size_bytes) {
  std::optional<Allocation> memory = free_blocks_->take(size_bytes);
  if (!memory) {
    memory = allocate_from_device(size_bytes);
    free_blocks_->add_used(size_bytes);
  }
  const auto block = std::make_shared<Block>(free_blocks_, std::move(*memory));
  return {block, block->memory.data()};
}

std::size_t MemoryPool::allocations() const { return free_blocks_->allocations(); }
std::size_t MemoryPool::size_bytes() const { return free_blocks_->size_bytes(); }

}  // namespace ddp::nn
