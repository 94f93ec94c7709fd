// SPDX-License-Identifier: MIT
#include "ddp/collectives/hierarchical/host_blocks.h"

#include <algorithm>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {

std::size_t HostBlocks::chunk_of(DType dtype, std::size_t size_bytes) const {
  return std::max<std::size_t>(size_bytes / size_of(dtype) / shares(), 1);
}

// Each half of the memory holds one block and the blocks of all hosts.
void HostBlocks::prepare(DType dtype, std::size_t chunk) {
  dtype_ = dtype;
  half_bytes_ = host_aligned((layout_.width() + shares()) * chunk * size_of(dtype));
  if (memory_.size_bytes() < 2 * half_bytes_) memory_ = allocate_host(2 * half_bytes_);
}

Buffer HostBlocks::half(const Chunk& chunk) const {
  auto* memory = static_cast<std::byte*>(memory_.data()) + (chunk.is_odd ? half_bytes_ : 0);
  return {memory, half_bytes_ / size_of(dtype_), dtype_, kCpuDevice};
}

Buffer HostBlocks::block(const Chunk& chunk) const {
  return half(chunk).slice(0, layout_.width() * chunk.count);
}

Buffer HostBlocks::blocks(const Chunk& chunk) const {
  return half(chunk).slice(layout_.width() * chunk.count, shares() * chunk.count);
}

template <class Copy>
void HostBlocks::for_each_share(const Buffer& whole, const Chunk& chunk, const Copy& copy) const {
  const Buffer all = blocks(chunk);
  const std::size_t share = whole.count / layout_.places.size();
  for (std::size_t rank = 0; rank < layout_.places.size(); ++rank) {
    const HostLayout::Place place = layout_.places[rank];
    const std::size_t at = static_cast<std::size_t>(place.host) * layout_.width() +
                           static_cast<std::size_t>(place.local_rank);
    copy(whole.slice(rank * share + chunk.begin, chunk.count),
         all.slice(at * chunk.count, chunk.count));
  }
}

void HostBlocks::pack(const Buffer& whole, const Chunk& chunk) const {
  for_each_share(whole, chunk, cpu::copy);
}

void HostBlocks::unpack(const Chunk& chunk, const Buffer& whole) const {
  for_each_share(whole, chunk,
                 [](const Buffer& part, const Buffer& packed) { cpu::copy(packed, part); });
}

}  // namespace ddp
