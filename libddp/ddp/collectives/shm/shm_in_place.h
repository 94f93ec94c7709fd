// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/shm/shm_board.h"
#include "ddp/collectives/shm/shm_heap.h"
#include "ddp/collectives/shm/shm_member.h"
#include "ddp/collectives/shm/shm_stage.h"

namespace ddp::shm {

// True for the kinds that can be done in place.
[[nodiscard]] bool works_in_place(CollectiveKind kind);
// True if at least one rank posted an operand that the others can reach; all ranks then do this
// collective in place.
[[nodiscard]] bool is_posted_in_place(const Member& self, std::uint64_t number);

// Collectives on operands that every rank can reach: all_reduce, reduce and broadcast. The operand
// is cut into chunks, and the chunks are divided into one part for each rank. A rank that waits
// first takes the chunks of its own part, then remaining ones of other parts: it reads a chunk from
// all ranks and writes the result to all ranks that get it. So no element is copied, a rank that
// still computes is not needed, and a rank that waits works for it. A rank that comes in time does
// the same part each time, and finds it in its caches. The sum of a chunk does not depend on which
// rank takes it: terms are added in rank order.
//
// Operands of up to Stage::kMaxOperandBytes may be anywhere: the rank posts a copy and copies the
// result back. Larger operands may be elsewhere only if another rank's is in the heap.
class InPlaceRunner {
 public:
  InPlaceRunner(Member& self, Board& board, Heap& heap);

  // The region of this rank's operand for a collective that is about to be posted; the operand must
  // not change any more. A null region: the others cannot reach it.
  [[nodiscard]] Region offer(const Collective& operation, std::uint64_t number);

  // Completes the operation, after all ranks have posted it under that number. Returns the time
  // from the first to the last work of any rank on it.
  Interval run(const Collective& operation, std::uint64_t number);

  // This rank runs nothing any more. Ranks that still read what it offered get an error.
  void leave();

 private:
  void find_operands(const Collective& operation, std::uint64_t number);
  void look_at_operands(std::uint64_t number);
  void abandon();
  [[nodiscard]] std::byte* reach(int rank, const Region& region);
  void work(const Collective& operation, std::uint64_t number);
  void work_on(const Collective& operation, std::size_t begin, std::size_t n);

  Member& self_;
  Board& board_;
  Heap& heap_;
  Stage stage_;
  std::vector<Buffer> operands_;  // by rank, as this process sees them
  std::vector<Buffer> terms_;     // of one chunk
  std::vector<Buffer> targets_;
};

}  // namespace ddp::shm
