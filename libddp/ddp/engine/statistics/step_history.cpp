// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/step_history.h"

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

#include "ddp/collectives/host_collectives.h"

namespace ddp {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

constexpr std::size_t kHistoryChunkBytes = std::size_t{64} << 10;  // sent by each rank at a time
constexpr std::size_t kFixedColumns = 10;
constexpr std::size_t kBucketColumns = 3;
// The columns of a step's begin and end.
constexpr std::size_t kBegin = 1;
constexpr std::size_t kEnd = 3;
// The column of the begin of the first bucket's reduction.
constexpr std::size_t kReduction = kFixedColumns + 1;

class Encoder {
 public:
  explicit Encoder(std::span<std::int64_t> row) : row_(row) {}

  void put(std::int64_t value) { row_[column_++] = value; }
  void put(Clock::time_point time) { put(Nanoseconds(time.time_since_epoch()).count()); }
  // No interval is written as two zeros.
  void put(const std::optional<Interval>& interval) {
    const Interval value = interval.value_or(Interval{});
    put(value.begin);
    put(value.end);
  }

 private:
  std::span<std::int64_t> row_;
  std::size_t column_ = 0;
};

// Reads a row of any rank, and converts its times to rank 0's clock.
class Decoder {
 public:
  Decoder(std::span<const std::int64_t> row, const ClockReading& early, const ClockReading& late)
      : row_(row), early_(early), late_(late) {}

  std::int64_t number() { return row_[column_++]; }
  Clock::time_point time() {
    return on_first_clock(Clock::time_point(Nanoseconds(number())), early_, late_);
  }
  std::optional<Interval> interval() {
    const bool is_there = row_[column_] != 0;
    const Clock::time_point begin = time();
    const Clock::time_point end = time();
    return is_there ? std::optional(Interval{begin, end}) : std::nullopt;
  }

 private:
  std::span<const std::int64_t> row_;
  const ClockReading& early_;
  const ClockReading& late_;
  std::size_t column_ = 0;
};

}  // namespace

StepHistory::StepHistory(ProcessGroup& group, const BucketLayout& layout) : group_(group) {
  for (const BucketSpec& bucket : layout.buckets) bucket_bytes_.push_back(bucket.size_bytes());
  width_ = kFixedColumns + kBucketColumns * bucket_bytes_.size();
  capacity_ = std::max<std::size_t>(1, kMemoryBytes / (width_ * sizeof(std::int64_t)));
  rows_.resize(capacity_ * width_);
  early_ = read_clocks(group);
}

void StepHistory::add(const RankStep& own) {
  if (own.engine.buckets.size() != bucket_bytes_.size()) {
    throw std::invalid_argument(
        "[ddp] StepHistory::add: the step has " + std::to_string(own.engine.buckets.size()) +
        " buckets, but the layout has " + std::to_string(bucket_bytes_.size()) +
        ": it is a step of another engine");
  }
  encode(own, Row(rows_).subspan(added_++ % capacity_ * width_, width_));
}

StepHistory::ConstRow StepHistory::row(std::size_t index) const {
  const std::size_t place = (added_ - kept() + index) % capacity_;
  return ConstRow(rows_).subspan(place * width_, width_);
}

void StepHistory::encode(const RankStep& step, Row row) const {
  Encoder encoder(row);
  encoder.put(step.step);
  encoder.put(step.engine.begin);
  encoder.put(step.engine.backward_end);
  encoder.put(step.engine.end);
  for (const auto& part : {step.data, step.forward, step.optimizer}) encoder.put(part);
  for (const StepTimes::Bucket& bucket : step.engine.buckets) {
    encoder.put(bucket.ready);
    encoder.put(bucket.reduction);
  }
}

RankStep StepHistory::decode(int rank, ConstRow row) const {
  const auto at = static_cast<std::size_t>(rank);
  Decoder decoder(row, early_[at], late_[at]);
  RankStep step{.rank = rank, .step = decoder.number()};
  step.engine.begin = decoder.time();
  step.engine.backward_end = decoder.time();
  step.engine.end = decoder.time();
  for (auto* part : {&step.data, &step.forward, &step.optimizer}) *part = decoder.interval();
  for (const std::size_t bytes : bucket_bytes_) {
    const Clock::time_point ready = decoder.time();
    step.engine.buckets.push_back({bytes, ready, decoder.interval()});
  }
  return step;
}

std::vector<std::int64_t> StepHistory::gather(std::size_t first, std::size_t count) const {
  std::vector<std::int64_t> own;
  for (std::size_t i = 0; i < count; ++i) {
    const ConstRow source = row(first + i);
    own.insert(own.end(), source.begin(), source.end());
  }
  return all_gather_on_host(group_, own);
}

std::vector<RankStep> StepHistory::step_of(ConstRow gathered, std::size_t index) const {
  const auto ranks = static_cast<std::size_t>(group_.world_size());
  const std::size_t stride = gathered.size() / ranks;
  std::vector<RankStep> steps;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const ConstRow source = gathered.subspan(rank * stride + index * width_, width_);
    steps.push_back(decode(static_cast<int>(rank), source));
  }
  return steps;
}

void StepHistory::collect(const Visit& visit) {
  late_ = read_clocks(group_);
  const std::size_t chunk =
      std::max<std::size_t>(1, kHistoryChunkBytes / (width_ * sizeof(std::int64_t)));
  for (std::size_t first = 0; first < kept(); first += chunk) {
    const std::size_t count = std::min(chunk, kept() - first);
    const std::vector<std::int64_t> gathered = gather(first, count);
    if (group_.rank() != 0) continue;
    for (std::size_t i = 0; i < count; ++i) visit(step_of(gathered, i));
  }
}

bool StepHistory::reduces(ConstRow row) const {
  return !bucket_bytes_.empty() && row[kReduction] != 0;
}

std::size_t StepHistory::typical() const {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < kept(); ++i) steps.push_back(i);
  const auto alone = std::ranges::stable_partition(steps, [&](auto i) { return reduces(row(i)); });
  if (alone.begin() != steps.begin()) steps.erase(alone.begin(), steps.end());
  if (steps.empty()) return 0;
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle, {},
                           [&](auto i) { return row(i)[kEnd] - row(i)[kBegin]; });
  return *middle;
}

Clock::duration StepHistory::clock_error(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return std::max(early_.at(at).error, late_.at(at).error);
}

}  // namespace ddp
