// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddp/engine/statistics/step_costs.h"
#include "ddp/engine/statistics/step_summary.h"

namespace ddp {

// Finds ranks that are late again and again. Steps are judged in blocks. A rank is a straggler of a
// block if its lateness behind the median rank (of two ranks, the faster one) is noticeable beside
// the slowest rank's work, and about the same in most steps: its median over the block is at least
// kSteadiness times its median deviation. So neither a single slow step nor ranks that are slow in
// turns make a straggler, and a rank that becomes slow is found after at most 1.5 blocks.
//
// add() does not allocate.
class StragglerFinder {
 public:
  static constexpr std::size_t kBlock = 10;            // steps
  static constexpr double kNoticeableFraction = 0.05;  // of the slowest rank's work
  static constexpr double kSteadiness = 4;

  explicit StragglerFinder(int world_size);

  // Adds one step, by rank.
  void add(std::span<const RankTimes> ranks);

  // All ranks that were a straggler in some block, the costliest first.
  [[nodiscard]] std::vector<Straggler> found() const;

  [[nodiscard]] LastRank most_often_last() const;

 private:
  // Sums over the blocks in which the rank was a straggler.
  struct Record {
    std::uint64_t steps = 0;
    double late_seconds = 0;
    double late_data_seconds = 0;
    double late_now_seconds = 0;
    std::uint64_t times_last = 0;  // in all blocks
  };

  [[nodiscard]] RankTimes typical(std::span<const RankTimes> ranks);
  void judge_block();

  std::vector<Record> records_;  // by rank
  std::vector<double> late_;  // by rank * kBlock + step in the block: lateness in seconds of work
  std::vector<double> late_data_;            // likewise, in seconds of data wait
  std::vector<double> scratch_;              // by rank
  std::array<double, kBlock> slowest_ = {};  // work in seconds of each step's slowest rank
  std::size_t in_block_ = 0;                 // steps
  std::uint64_t steps_ = 0;
};

}  // namespace ddp
