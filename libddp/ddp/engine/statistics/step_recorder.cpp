// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/step_recorder.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace ddp {
namespace {

// A step times its buckets and the control vector. Some more operations are kept, because buffers
// may be broadcast before the times are requested. On CUDA they are requested some steps late.
std::uint64_t operations_to_time(std::size_t buckets, Device device) {
  constexpr std::uint64_t kOthers = 64;
  constexpr std::uint64_t kMost = ProcessGroup::kMaxTimedOperations - 1;
  if (buckets > kMost) {
    throw std::invalid_argument("[ddp] record_times can time " + std::to_string(kMost) +
                                " buckets, but the model has " + std::to_string(buckets) +
                                ": raise buckets.bucket_bytes_cap");
  }
  const std::uint64_t least = buckets + 1;
  const std::uint64_t wanted = least * (device.is_cuda() ? StepRecorder::kKeptSteps : 1) + kOthers;
  return std::max(least, std::min(wanted, ProcessGroup::kMaxTimedOperations));
}

}  // namespace

StepRecorder::StepRecorder(ProcessGroup& group, const BucketLayout& layout)
    : backward_end_{cu::StreamMoment(group.device())}, end_{cu::StreamMoment(group.device())} {
  group.start_timing(operations_to_time(layout.buckets.size(), group.device()));
  if (group.device().is_cuda()) clock_.emplace(group.device());
  for (const BucketSpec& bucket : layout.buckets) {
    buckets_.push_back({bucket.size_bytes(), {cu::StreamMoment(group.device())}});
  }
  works_.fill(Works(buckets_.size()));
}

void StepRecorder::take(Mark& mark, Stream stream) {
  mark.is_taken = true;
  mark.moment.take(stream);
}

Clock::time_point StepRecorder::time_of(const Mark& mark) {
  return mark.is_taken ? mark.moment.time(clock_) : begin_;
}

void StepRecorder::begin() {
  begin_ = Clock::now();
  backward_end_.is_taken = end_.is_taken = false;
  for (BucketMarks& bucket : buckets_) bucket.ready.is_taken = false;
  if (!std::exchange(has_launched_, false)) return;
  turn_ = (turn_ + 1) % kKeptSteps;
  std::ranges::fill(works_[turn_], Work{});
}

void StepRecorder::ready(std::size_t bucket, Stream producer) {
  take(buckets_[bucket].ready, producer);
}

void StepRecorder::launched(std::size_t bucket, Work work) {
  works_[turn_][bucket] = work;
  has_launched_ = true;
}

void StepRecorder::backward_ended(Stream consumer) { take(backward_end_, consumer); }

void StepRecorder::ended(Stream consumer) { take(end_, consumer); }

double StepRecorder::reduction_seconds(std::size_t steps_ago) const {
  std::chrono::duration<double> sum{};
  for (const Work& work : works_[(turn_ + kKeptSteps - steps_ago) % kKeptSteps]) {
    const std::optional<Interval> ran = work.group == nullptr ? std::nullopt : work.interval();
    if (!ran) return 0;
    sum += ran->end - ran->begin;
  }
  return sum.count();
}

StepTimes StepRecorder::times() {
  if (end_.is_taken) end_.moment.synchronize();
  StepTimes times{begin_, time_of(backward_end_), time_of(end_), {}};
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    times.buckets.push_back({buckets_[b].size_bytes, time_of(buckets_[b].ready), std::nullopt});
    const Work& work = works_[turn_][b];
    if (work.group != nullptr) times.buckets.back().reduction = work.interval();
  }
  return times;
}

}  // namespace ddp
