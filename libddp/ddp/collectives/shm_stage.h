// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/collectives/shm_heap.h"
#include "ddp/collectives/shm_segment.h"

namespace ddp::shm {

// Room in the heap for copies of operands that lie in a rank's own memory: from when it posts a
// collective until it has finished that. A ring, since collectives finish in the order in which
// they are posted; it is allocated when it is first asked for.
//
// Thread safety: from any thread.
class Stage {
 public:
  static constexpr std::size_t kMaxOperandBytes = std::size_t{2} << 20;

  explicit Stage(Heap& heap) : heap_(heap) {}

  // For an operand of this collective. Nothing if it is larger than kMaxOperandBytes, and if there
  // is no room just now.
  [[nodiscard]] std::optional<Buffer> take(std::uint64_t collective, const Buffer& like);
  // Gives back what take() gave for that collective, if it gave anything.
  [[nodiscard]] std::optional<Buffer> find(std::uint64_t collective) const;
  void give_back(std::uint64_t collective);
  [[nodiscard]] bool is_in_use() const;

 private:
  static constexpr std::uint64_t kBytes = 2 * kMaxOperandBytes;

  // Positions count all bytes that were ever handed out or left over at the ring's end.
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
  std::uint64_t begin_ = 0;  // of what is in use
  std::uint64_t end_ = 0;
};

}  // namespace ddp::shm
