// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/shm_board.h"
#include "ddp/collectives/shm_heap.h"
#include "ddp/collectives/shm_member.h"
#include "ddp/collectives/shm_stage.h"

namespace ddp::shm {

// Collectives whose operands lie where every rank can reach them: all_reduce, reduce and broadcast.
// The operand is cut into chunks, and these into a part for each rank. Whoever waits takes the
// chunks of its own part, and then what is left of the others': it reads them from all ranks and
// writes the result to all that get it. No element is copied on its way, a rank that still computes
// is not needed, and one that waits works for it. A rank that comes in time does the same part each
// time and finds it in its caches. The sum of a chunk does not depend on who takes it: its terms
// are added in the order of the ranks.

// Operands of up to Stage::kMaxOperandBytes may lie anywhere: the rank posts a copy of its own, and
// takes the result home. Larger ones do so only where another rank's lie in the heap.

// True for the kinds that can be done so.
[[nodiscard]] bool works_in_place(CollectiveKind kind);
// True if at least one rank posted an operand in memory that others reach, so that this collective
// is done in place by all.
[[nodiscard]] bool is_posted_in_place(const Member& self, std::uint64_t number);

class InPlaceRunner {
 public:
  InPlaceRunner(Member& self, Board& board, Heap& heap);

  // Where the others find this rank's operand, which must not change any more, of a collective that
  // is about to be posted. A null region: nowhere.
  [[nodiscard]] Region offer(const Collective& operation, std::uint64_t number);

  // Runs the operation to its end, once all ranks have posted it under that number. Returns from
  // when to when ranks worked on it.
  Interval run(const Collective& operation, std::uint64_t number);

  // This rank runs nothing any more. Others that still read what it offered get an error.
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
  std::vector<Buffer> terms_;     // of a chunk
  std::vector<Buffer> targets_;
};

}  // namespace ddp::shm
