// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/store/store.h"

namespace ddp::bench {

// The upper bound that this host's memory sets for an all_reduce. All operands lie in one file that
// all ranks have mapped; each rank sums its share of all operands into all of them, in place. There
// is nothing else: ranks meet by spinning (by yielding if there are more ranks than CPUs), and only
// a timeout ends a meeting early.
class Bound {
 public:
  // Collective; all ranks are on one host, and nothing else writes to `store`.
  Bound(Store& store, int rank, int ranks, std::size_t max_bytes);

  // Returns when all ranks have called meet().
  void meet();
  // Replaces the first `count` elements of every rank's memory() by their sum over all ranks.
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
  Allocation memory_;           // Arrivals[ranks], then one operand per rank; each page-aligned
  std::vector<Buffer> shares_;  // the ranks' shares in the running all_reduce
  std::uint32_t meetings_ = 0;
};

}  // namespace ddp::bench
