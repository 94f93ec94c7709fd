// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/collectives/shm/shm_heap.h"
#include "ddp/collectives/shm/shm_segment.h"

namespace ddp::shm {

// Space in the heap for copies of operands in a rank's private memory, from the post of a
// collective to its end. It is a ring, since collectives finish in the order in which they are
// posted; it is allocated at first use.
//
// Thread-safe.
class Stage {
 public:
  static constexpr std::size_t kMaxOperandBytes = std::size_t{2} << 20;

  explicit Stage(Heap& heap) : heap_(heap) {}

  // Space for an operand of this collective. Returns nothing if the operand is larger than
  // kMaxOperandBytes, or if there is no space just now.
  [[nodiscard]] std::optional<Buffer> take(std::uint64_t collective, const Buffer& like);
  // find() returns what take() gave for that collective; give_back() returns the space. Both do
  // nothing if take() gave nothing.
  [[nodiscard]] std::optional<Buffer> find(std::uint64_t collective) const;
  void give_back(std::uint64_t collective);
  [[nodiscard]] bool is_in_use() const;

 private:
  static constexpr std::uint64_t kBytes = 2 * kMaxOperandBytes;

  // Positions count all bytes ever handed out or skipped at the ring's end.
  struct Loan {
    std::uint64_t collective = 0;
    std::uint64_t end = 0;
    Buffer copy;
  };

  [[nodiscard]] bool has_memory();
  [[nodiscard]] Loan& loan(std::uint64_t collective) { return loans_[collective % kPosts]; }
  [[nodiscard]] const Loan& loan(std::uint64_t collective) const {
    return loans_[collective % kPosts];
  }

  Heap& heap_;
  mutable std::mutex mutex_;
  std::optional<Allocation> memory_;
  bool is_memory_short_ = false;
  std::array<Loan, kPosts> loans_;
  std::uint64_t begin_ = 0;  // of the space in use
  std::uint64_t end_ = 0;
};

}  // namespace ddp::shm
