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
#include "ddp/engine/rank_clock.h"
#include "ddp/engine/rank_step.h"

namespace ddp {

// The last steps of all ranks, on rank 0's clock. While steps go on, each rank keeps its own, in
// memory that is allocated once; at the end rank 0 collects them. All ranks make it and call
// collect() together, and add the same steps. Not thread-safe.
class StepHistory {
 public:
  static constexpr std::size_t kMemoryBytes = std::size_t{8} << 20;

  // Collective. `layout` is that of the engine whose steps are added.
  StepHistory(ProcessGroup& group, const BucketLayout& layout);

  // The rank in `own` is not looked at. Touches no heap.
  void add(const RankStep& own);

  // Calls `visit` on rank 0, once for each step that is kept, the oldest first, with that step of
  // all ranks. Collective; a chunk of steps at a time is under way.
  using Visit = std::function<void(std::span<const RankStep> ranks)>;
  void collect(const Visit& visit);

  // Of the steps that are kept, the index of one of this rank's that took as long as usual; of
  // those with reductions, if there are any: an accumulated step is several passes, and only the
  // last one reduces.
  [[nodiscard]] std::size_t typical() const;

  // By how much a rank's times may be wrong against rank 0's; 0 if they have the same clock. On
  // rank 0, after collect().
  [[nodiscard]] Clock::duration clock_error(int rank) const;

 private:
  // A step as integers; encode() has their order.
  using Row = std::span<std::int64_t>;
  using ConstRow = std::span<const std::int64_t>;

  [[nodiscard]] std::size_t kept() const { return std::min(added_, capacity_); }
  // By the age among those that are kept: 0 is the oldest.
  [[nodiscard]] ConstRow row(std::size_t index) const;
  [[nodiscard]] bool reduces(ConstRow row) const;
  void encode(const RankStep& step, Row row) const;
  [[nodiscard]] RankStep decode(int rank, ConstRow row) const;
  [[nodiscard]] std::vector<std::int64_t> gather(std::size_t first, std::size_t count) const;
  [[nodiscard]] std::vector<RankStep> step_of(ConstRow gathered, std::size_t index) const;

  ProcessGroup& group_;
  std::vector<std::size_t> bucket_bytes_;
  std::size_t width_;     // of a row
  std::size_t capacity_;  // rows
  std::vector<std::int64_t> rows_;
  std::size_t added_ = 0;
  std::vector<ClockReading> early_;  // by rank, on rank 0
  std::vector<ClockReading> late_;
};

}  // namespace ddp
