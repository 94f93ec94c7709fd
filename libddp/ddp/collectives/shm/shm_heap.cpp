// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_heap.h"

#include <algorithm>
#include <functional>

namespace ddp::shm {

Heap::Heap(const Segment& segment, int rank)
    : segment_(segment), rank_(rank), mapped_(static_cast<std::size_t>(segment.world_size())) {}

Allocation Heap::allocate(std::size_t size_bytes) {
  const auto memory = SharedMemory::create(size_bytes);
  memory->populate();
  const std::lock_guard lock(own_->mutex);
  own_->blocks.push_back({++own_->allocated, memory->name().fd, memory});
  return {memory->data(), size_bytes, [own = own_](void* data) { own->release(data); }};
}

// Peers may keep the memory mapped as long as the group lives, but they do not touch it any more.
void Heap::Own::release(const void* data) {
  const std::lock_guard lock(mutex);
  const auto found = std::find_if(blocks.begin(), blocks.end(),
                                  [&](const Block& block) { return block.memory->data() == data; });
  found->memory->discard();
  blocks.erase(found);
}

Region Heap::find(const Buffer& buffer) const {
  const auto* begin = static_cast<const std::byte*>(buffer.data);
  const std::lock_guard lock(own_->mutex);
  for (const Block& block : own_->blocks) {
    const SharedMemory& memory = *block.memory;
    const std::less_equal<> is_not_after;
    const bool is_inside =
        is_not_after(memory.data(), begin) &&
        is_not_after(begin + buffer.size_bytes(), memory.data() + memory.size_bytes());
    if (!is_inside) continue;
    return {.block = block.number,
            .size_bytes = memory.size_bytes(),
            .offset_bytes = static_cast<std::uint64_t>(begin - memory.data()),
            .inode = memory.name().inode,
            .fd = block.descriptor};
  }
  return {};
}

std::byte* Heap::at(int rank, const Region& region) {
  if (rank == rank_) return find_own(region.block) + region.offset_bytes;
  for (const Block& block : mapped_[static_cast<std::size_t>(rank)]) {
    if (block.number == region.block) return block.memory->data() + region.offset_bytes;
  }
  return map(rank, region) + region.offset_bytes;
}

std::byte* Heap::find_own(std::uint64_t number) const {
  const std::lock_guard lock(own_->mutex);
  return std::find_if(own_->blocks.begin(), own_->blocks.end(),
                      [&](const Block& block) { return block.number == number; })
      ->memory->data();
}

// A descriptor belongs to one block at a time, so an older mapping of it is dropped. A block that
// its rank has discarded is dropped, too; only a rank in the same process can see that.
std::byte* Heap::map(int rank, const Region& region) {
  std::vector<Block>& blocks = mapped_[static_cast<std::size_t>(rank)];
  const SharedMemory::Name name{segment_.control(rank).pid, region.fd, region.inode,
                                region.size_bytes};
  const auto memory = SharedMemory::open(name);
  std::erase_if(blocks, [&](const Block& block) {
    return block.descriptor == region.fd || block.memory->is_discarded();
  });
  blocks.push_back({region.block, region.fd, memory});
  memory->populate();
  return memory->data();
}

}  // namespace ddp::shm
