// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddp/engine/step_summary.h"

namespace ddp {

enum class Lateness : std::uint8_t { kCompute, kData };

// A rank that keeps the others waiting.
struct Straggler {
  int rank = 0;
  Lateness cause = Lateness::kCompute;
  double late_seconds = 0;      // behind the typical rank, in each of its `steps`
  std::uint64_t steps = 0;      // in which it was one
  double late_now_seconds = 0;  // in the last steps; 0 if it has recovered
};

// Finds the ranks that are late again and again. Steps are taken in blocks. A rank is a straggler
// of a block if its lateness behind the median rank (of two, the faster) is noticeable and about
// the same in most steps: its median over the block is kSteadiness times its median deviation or
// more. So neither a single slow step nor ranks that are slow in turns name anybody, and a rank
// that becomes slow is named after at most 1.5 blocks.
//
// add() touches no heap.
class StragglerFinder {
 public:
  static constexpr std::size_t kBlock = 10;            // steps
  static constexpr double kNoticeableFraction = 0.05;  // of the typical rank's work
  static constexpr double kSteadiness = 4;

  explicit StragglerFinder(int world_size);

  // One step, by rank.
  void add(std::span<const RankTimes> ranks);

  // All ranks that were one in some block, the costliest first.
  [[nodiscard]] std::vector<Straggler> found() const;

  // The rank that was last most often, whether by much or little.
  struct Last {
    int rank = 0;
    double fraction = 0;  // of all steps
  };
  [[nodiscard]] Last most_often_last() const;

 private:
  // In the blocks in which the rank was a straggler.
  struct Record {
    std::uint64_t steps = 0;
    double late_seconds = 0;
    double late_data_seconds = 0;
    double late_now_seconds = 0;
    std::uint64_t times_last = 0;  // in all blocks
  };

  [[nodiscard]] RankTimes typical(std::span<const RankTimes> ranks);
  void judge_block();

  std::vector<Record> records_;    // by rank
  std::vector<double> late_;       // rank * kBlock + step of the block: seconds of work
  std::vector<double> late_data_;  // likewise, of data
  std::vector<double> scratch_;    // by rank
  std::size_t in_block_ = 0;       // steps
  double typical_seconds_ = 0;     // sum over the block
  std::uint64_t steps_ = 0;
};

}  // namespace ddp
