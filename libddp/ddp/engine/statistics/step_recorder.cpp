// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/step_recorder.h"

#include <algorithm>

namespace ddp {
namespace {

// A step times its buckets and the control vector. Some more operations are kept, because buffers
// may be broadcast before the times are requested.
std::uint64_t operations_to_time(std::size_t buckets) {
  constexpr std::uint64_t kOthers = 64;
  const std::uint64_t least = buckets + 1;
  return std::max(least, std::min(least + kOthers, ProcessGroup::kMaxTimedOperations));
}

}  // namespace

StepRecorder::StepRecorder(ProcessGroup& group, const BucketLayout& layout)
    : backward_end_{cu::StreamMoment(group.device())}, end_{cu::StreamMoment(group.device())} {
  group.start_timing(operations_to_time(layout.buckets.size()));
  if (group.device().is_cuda()) clock_.emplace(group.device());
  for (const BucketSpec& bucket : layout.buckets) {
    buckets_.push_back({bucket.size_bytes(), {cu::StreamMoment(group.device())}, {}});
  }
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
  for (BucketMarks& bucket : buckets_) {
    bucket.ready.is_taken = false;
    bucket.work = {};
  }
}

void StepRecorder::ready(std::size_t bucket, Stream producer) {
  take(buckets_[bucket].ready, producer);
}

void StepRecorder::launched(std::size_t bucket, Work work) { buckets_[bucket].work = work; }

void StepRecorder::backward_ended(Stream consumer) { take(backward_end_, consumer); }

void StepRecorder::ended(Stream consumer) { take(end_, consumer); }

double StepRecorder::reduction_seconds() const {
  std::chrono::duration<double> sum{};
  for (const BucketMarks& bucket : buckets_) {
    if (bucket.work.group == nullptr) continue;
    const std::optional<Interval> ran = bucket.work.interval();
    if (ran) sum += ran->end - ran->begin;
  }
  return sum.count();
}

StepTimes StepRecorder::times() {
  if (end_.is_taken) end_.moment.synchronize();
  StepTimes times{begin_, time_of(backward_end_), time_of(end_), {}};
  for (const BucketMarks& bucket : buckets_) {
    times.buckets.push_back({bucket.size_bytes, time_of(bucket.ready), std::nullopt});
    if (bucket.work.group != nullptr) times.buckets.back().reduction = bucket.work.interval();
  }
  return times;
}

}  // namespace ddp
