// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/dtype.h"
#include "ddp/collectives/peers/host_layout.h"

namespace ddp {

// A part of an operation: elements [begin, begin + count) of every rank's operand.
struct Chunk {
  std::size_t begin = 0;
  std::size_t count = 0;
  bool is_odd = false;  // true for every second chunk
};

// Memory in which the ranks' chunks are arranged by host for the transfer between hosts. A block
// holds the chunk of each rank of one host, one after the other; if a host has fewer ranks than the
// largest one, the rest of its block is unused. Neighbouring chunks use different memory.
class HostBlocks {
 public:
  explicit HostBlocks(HostLayout layout) : layout_(std::move(layout)) {}

  // The number of elements per rank that makes all blocks together about this large; at least 1.
  [[nodiscard]] std::size_t chunk_of(DType dtype, std::size_t size_bytes) const;
  // Call it before an operation whose chunks have at most this many elements.
  void prepare(DType dtype, std::size_t chunk);

  // The block of this host.
  [[nodiscard]] Buffer block(const Chunk& chunk) const;
  // The blocks of all hosts.
  [[nodiscard]] Buffer blocks(const Chunk& chunk) const;

  // Copies a chunk of `whole`, which holds the ranks' operands one after the other, to and from
  // blocks().
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
