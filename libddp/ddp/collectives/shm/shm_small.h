// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/shm/shm_member.h"

namespace ddp::shm {

// Small collectives: each rank posts a copy of its operand and takes what it needs from the others'
// posts, so a rank waits only until all have called. Every rank computes a reduction by itself, in
// rank order.

// The largest operand of a small collective of this kind.
[[nodiscard]] std::size_t small_bytes(CollectiveKind kind, int world_size);
// True if this collective is small; equal on all ranks that called the same one.
[[nodiscard]] bool is_small(const Collective& operation, int world_size);
// The bytes of its operand that this rank must post.
[[nodiscard]] std::span<const std::byte> elements_to_post(const Collective& operation, int rank);

// Runs small collectives once they are posted.
class SmallRunner {
 public:
  explicit SmallRunner(const Member& self);

  // Call it once all ranks have posted the operation under that number.
  void run(const Collective& operation, std::uint64_t number);

 private:
  void reduce(const Collective& operation, std::uint64_t number, std::size_t begin);
  void take_from_all(const Collective& operation, std::uint64_t number, std::size_t begin) const;
  [[nodiscard]] Buffer posted(int source, std::uint64_t number, std::size_t begin,
                              const Buffer& like) const;

  const Member& self_;
  std::vector<Buffer> terms_;
};

}  // namespace ddp::shm
