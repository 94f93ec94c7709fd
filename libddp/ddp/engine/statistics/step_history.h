// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/statistics/rank_clock.h"
#include "ddp/engine/statistics/rank_step.h"

namespace ddp {

// Keeps the last steps of all ranks, in the time of rank 0's clock. Each rank records its own steps
// in memory that is allocated once; at the end rank 0 collects them. All ranks construct it and
// call collect() together, and add the same steps. Not thread-safe. The group must outlive it.
class StepHistory {
 public:
  static constexpr std::size_t kMemoryBytes = std::size_t{8} << 20;

  // Collective. `layout` is the layout of the engine whose steps are added.
  StepHistory(ProcessGroup& group, const BucketLayout& layout);

  // Ignores own.rank. Does not allocate. Throws std::invalid_argument if the step has another
  // number of buckets than the layout, such as that of another engine.
  void add(const RankStep& own);

  // On rank 0, calls `visit` once for each kept step, the oldest first, with that step of all
  // ranks. Collective. Steps are transferred in chunks, to bound the memory.
  using Visit = std::function<void(std::span<const RankStep> ranks)>;
  void collect(const Visit& visit);

  // The index, among the kept steps, of a step of this rank that took as long as usual. Only steps
  // with reductions count, if there are any: with accumulation only the last pass of a step
  // reduces.
  [[nodiscard]] std::size_t typical() const;

  // The bound on the error of a rank's times relative to rank 0's; 0 if they share a clock. Call it
  // on rank 0 after collect().
  [[nodiscard]] Clock::duration clock_error(int rank) const;

 private:
  // A step as integers, in the order of encode().
  using Row = std::span<std::int64_t>;
  using ConstRow = std::span<const std::int64_t>;

  [[nodiscard]] std::size_t kept() const { return std::min(added_, capacity_); }
  // The row at `index` among the kept ones; 0 is the oldest.
  [[nodiscard]] ConstRow row(std::size_t index) const;
  [[nodiscard]] bool reduces(ConstRow row) const;
  void encode(const RankStep& step, Row row) const;
  [[nodiscard]] RankStep decode(int rank, ConstRow row) const;
  [[nodiscard]] std::vector<std::int64_t> gather(std::size_t first, std::size_t count) const;
  [[nodiscard]] std::vector<RankStep> step_of(ConstRow gathered, std::size_t index) const;

  ProcessGroup& group_;
  std::vector<std::size_t> bucket_bytes_;
  std::size_t width_;     // elements per row
  std::size_t capacity_;  // rows
  std::vector<std::int64_t> rows_;
  std::size_t added_ = 0;
  std::vector<ClockReading> early_;  // at construction, by rank, on rank 0
  std::vector<ClockReading> late_;   // in collect()
};

}  // namespace ddp
