// SPDX-License-Identifier: MIT
#include "ddp/engine/step_recorder.h"

namespace ddp {

StepRecorder::StepRecorder(ProcessGroup& group, const BucketLayout& layout) : group_(group) {
  group.start_timing();
  if (group.device().is_cuda()) {
    clock_stream_.emplace(group.device());
    clock_.emplace(group.device(), clock_stream_->view());
  }
  backward_end_ = make_mark();
  end_ = make_mark();
  for (const BucketSpec& bucket : layout.buckets) {
    buckets_.push_back({bucket.count * size_of(bucket.dtype), make_mark(), {}});
  }
}

StepRecorder::Mark StepRecorder::make_mark() const {
  Mark mark;
  if (clock_) mark.event = cu::Event(group_.device(), cu::EventTiming::kEnabled);
  return mark;
}

void StepRecorder::take(Mark& mark, Stream stream) const {
  mark.is_taken = true;
  if (clock_) {
    mark.event.record(stream);
  } else {
    mark.time = Clock::now();
  }
}

Clock::time_point StepRecorder::time_of(const Mark& mark) const {
  if (!mark.is_taken) return begin_;
  return clock_ ? clock_->time_of(mark.event) : mark.time;
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

StepTimes StepRecorder::times() const {
  if (clock_ && end_.is_taken) end_.event.synchronize();
  StepTimes times{begin_, time_of(backward_end_), time_of(end_), {}};
  for (const BucketMarks& bucket : buckets_) {
    StepTimes::Bucket each{bucket.size_bytes, time_of(bucket.ready), {}};
    if (bucket.work.group != nullptr) {
      each.reduction = bucket.work.interval().value_or(Interval{each.ready, each.ready});
    }
    times.buckets.push_back(each);
  }
  return times;
}

}  // namespace ddp
