// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/straggler_finder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace ddp {
namespace {

// The median; of an even number of values, the smaller of the middle two. Reorders `values`.
double lower_median(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using Block = std::array<double, StragglerFinder::kBlock>;

double median(Block block) {
  const auto middle = block.begin() + block.size() / 2;
  std::nth_element(block.begin(), middle, block.end());
  return *middle;
}

Block block_of(const std::vector<double>& values, std::size_t rank) {
  Block block{};
  std::copy_n(&values[rank * block.size()], block.size(), block.begin());
  return block;
}

// True if the steps of a block deviate little from `usual`, their median.
bool is_steady(Block block, double usual) {
  for (double& value : block) value = std::abs(value - usual);
  return usual >= StragglerFinder::kSteadiness * median(block);
}

}  // namespace

StragglerFinder::StragglerFinder(int world_size)
    : records_(static_cast<std::size_t>(world_size)),
      late_(records_.size() * kBlock),
      late_data_(records_.size() * kBlock),
      scratch_(records_.size()) {}

RankTimes StragglerFinder::typical(std::span<const RankTimes> ranks) {
  RankTimes result;
  std::ranges::transform(ranks, scratch_.begin(), &RankTimes::work_seconds);
  result.work_seconds = lower_median(scratch_);
  std::ranges::transform(ranks, scratch_.begin(), &RankTimes::data_seconds);
  result.data_seconds = lower_median(scratch_);
  return result;
}

void StragglerFinder::add(std::span<const RankTimes> ranks) {
  const RankTimes usual = typical(ranks);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    late_[rank * kBlock + in_block_] = ranks[rank].work_seconds - usual.work_seconds;
    late_data_[rank * kBlock + in_block_] = ranks[rank].data_seconds - usual.data_seconds;
  }
  const auto last = std::ranges::max_element(ranks, {}, &RankTimes::work_seconds);
  ++records_[static_cast<std::size_t>(last - ranks.begin())].times_last;
  slowest_[in_block_] = last->work_seconds;
  ++steps_;
  if (++in_block_ == kBlock) judge_block();
}

void StragglerFinder::judge_block() {
  const double noticeable = kNoticeableFraction * median(slowest_);
  for (std::size_t rank = 0; rank < records_.size(); ++rank) {
    Record& record = records_[rank];
    const Block block = block_of(late_, rank);
    const double late = median(block);
    const bool is_late = late > noticeable && is_steady(block, late);
    record.late_now_seconds = is_late ? late : 0;
    if (!is_late) continue;
    record.steps += kBlock;
    record.late_seconds += kBlock * late;
    record.late_data_seconds += kBlock * median(block_of(late_data_, rank));
  }
  in_block_ = 0;
}

std::vector<Straggler> StragglerFinder::found() const {
  std::vector<Straggler> result;
  for (std::size_t rank = 0; rank < records_.size(); ++rank) {
    const Record& record = records_[rank];
    if (record.steps == 0) continue;
    const bool by_data = record.late_data_seconds > record.late_seconds / 2;
    result.push_back({.rank = static_cast<int>(rank),
                      .cause = by_data ? Lateness::kData : Lateness::kCompute,
                      .late_seconds = record.late_seconds / static_cast<double>(record.steps),
                      .steps = record.steps,
                      .late_now_seconds = record.late_now_seconds});
  }
  std::ranges::stable_sort(result, std::greater{}, [](const Straggler& straggler) {
    return straggler.late_seconds * static_cast<double>(straggler.steps);
  });
  return result;
}

LastRank StragglerFinder::most_often_last() const {
  if (steps_ == 0) return {};
  const auto record = std::ranges::max_element(records_, {}, &Record::times_last);
  return {.rank = static_cast<int>(record - records_.begin()),
          .fraction = static_cast<double>(record->times_last) / static_cast<double>(steps_)};
}

}  // namespace ddp
