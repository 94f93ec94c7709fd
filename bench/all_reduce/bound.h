// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/store/store.h"

namespace ddp::bench {

// How fast this host's memory lets ranks all_reduce: their operands lie in one file that all of
// them have mapped, and each rank sums its share of all operands into all of them, in place.
// Nothing else: ranks meet by spinning (with more ranks than CPUs, by yielding), and only a timeout
// ends them.
class Bound {
 public:
  // Collective, on one host; nobody else writes to `store`.
  Bound(Store& store, int rank, int ranks, std::size_t max_bytes);

  // All ranks have come here.
  void meet();
  // The sum over all ranks, for the first `count` elements of every rank's memory().
  void all_reduce(std::size_t count);
  // This rank's operand.
  [[nodiscard]] Buffer memory() const { return operand(rank_); }

 private:
  struct Arrivals;

  [[nodiscard]] Buffer operand(int rank) const;
  [[nodiscard]] Arrivals& arrivals(int rank) const;
  void wait_for(int rank) const;

  int rank_;
  int ranks_;
  int spins_;
  std::size_t operand_bytes_;
  Allocation memory_;  // Arrivals[ranks], then an operand of each rank; all of them page-aligned
  std::vector<Buffer> shares_;  // of the running all_reduce, by rank
  std::uint32_t meetings_ = 0;
};

}  // namespace ddp::bench
