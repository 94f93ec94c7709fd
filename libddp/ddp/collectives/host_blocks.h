// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/dtype.h"
#include "ddp/collectives/host_layout.h"

namespace ddp {

// A part of an operation: elements [begin, begin + count) of every rank's share.
struct Chunk {
  std::size_t begin = 0;
  std::size_t count = 0;
  bool is_odd = false;  // every second one
};

// Memory in which the shares of ranks lie by host, as they cross between hosts. A block is a chunk
// of the share of each rank of one host, one behind the other; where a host has fewer ranks than
// the largest one, its end means nothing. A chunk and its neighbour have memory of their own.
class HostBlocks {
 public:
  explicit HostBlocks(HostLayout layout) : layout_(std::move(layout)) {}

  // Elements of a share that make all blocks about so many bytes; at least 1.
  [[nodiscard]] std::size_t chunk_of(DType dtype, std::size_t size_bytes) const;
  // To be called before an operation whose chunks have at most so many elements.
  void prepare(DType dtype, std::size_t chunk);

  // This host's.
  [[nodiscard]] Buffer block(const Chunk& chunk) const;
  // One for each host.
  [[nodiscard]] Buffer blocks(const Chunk& chunk) const;

  // A chunk of `whole`, which is the ranks' shares one behind the other, to and from blocks().
  void pack(const Buffer& whole, const Chunk& chunk) const;
  void unpack(const Chunk& chunk, const Buffer& whole) const;

 private:
  template <class Copy>
  void for_each_share(const Buffer& whole, const Chunk& chunk, const Copy& copy) const;
  [[nodiscard]] Buffer half(const Chunk& chunk) const;
  [[nodiscard]] std::size_t shares() const { return layout_.width() * layout_.members.size(); }

  HostLayout layout_;
  DType dtype_ = DType::kFloat32;
  std::size_t half_bytes_ = 0;
  Allocation memory_;
};

}  // namespace ddp
