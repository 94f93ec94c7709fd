// SPDX-License-Identifier: MIT
#include "ddp/engine/reducer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/profiler_span.h"

namespace ddp {

Reducer::Reducer(ProcessGroup& group, std::span<const GradientSpec> gradients,
                 const BucketOptions& options, const GradientHookFactory& make_hook,
                 AtLaunch at_launch, std::size_t tail_count)
    : group_(group),
      layout_(lay_out_buckets(gradients, options, tail_count)),
      at_launch_(std::move(at_launch)),
      communicates_(group.world_size() > 1),
      overlap_(options.overlap),
      memory_(group.allocate(layout_.size_bytes)),
      states_(layout_.buckets.size()),
      labels_(layout_.buckets.size(), 0),
      marks_(gradients.size(), 0),
      expected_(gradients.size(), 1),
      held_(gradients.size(), 0),
      used_(gradients.size(), 0) {
  order_.reserve(gradients.size());
  ready_order_.reserve(gradients.size());
  for (const GradientSpec& gradient : gradients) counts_.push_back(gradient.count);
  for (std::size_t b = 0; b < states_.size(); ++b) {
    states_[b].span_name = "ddp bucket " + std::to_string(b);
  }
  if (communicates_ && make_hook) hook_ = make_hook(group, layout_);
  if (!group.device().is_cuda()) return;
  for (BucketState& state : states_) state.joined = cu::Event(group.device());
}

Buffer Reducer::bucket(std::size_t b) const {
  const BucketSpec& spec = layout_.buckets[b];
  auto* begin = static_cast<std::byte*>(memory_.data()) + spec.offset_bytes;
  return {begin, spec.count, spec.dtype, group_.device()};
}

Buffer Reducer::gradient(std::size_t i) const {
  const GradientSlot& slot = layout_.slots.at(i);
  return bucket(slot.bucket).slice(slot.offset, counts_[i]);
}

Buffer Reducer::tail() const {
  return bucket(states_.size() - 1).slice(layout_.tail_offset, layout_.tail_count);
}

GradientBucket Reducer::describe(std::size_t b) const {
  return {b, bucket(b), layout_.buckets[b].parameters, b + 1 == states_.size()};
}

void Reducer::learn_uses() {
  uses_ = Uses::kLearning;
  std::fill(expected_.begin(), expected_.end(), std::uint32_t{0});
}

void Reducer::begin(Reduction reduction) {
  const bool begins_step = reduction_ == Reduction::kNow;
  if (begins_step) std::fill(used_.begin(), used_.end(), std::uint8_t{0});
  reduction_ = reduction;
  next_ = 0;
  zeros_ = false;
  factor_ = nullptr;
  order_.clear();
  if (recorder_) recorder_->begin();
  std::fill(marks_.begin(), marks_.end(), std::uint32_t{0});
  for (BucketState& state : states_) {
    state.missing = 0;
    state.has_producer = false;
    state.producer = {};
  }
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    if (expected_[i] > 0) ++states_[layout_.slots[i].bucket].missing;
  }
}

void Reducer::mark_ready(std::size_t i, Stream stream) {
  if (!accepts(i)) {
    throw std::logic_error("gradient " + std::to_string(i) + " was marked ready too often");
  }
  ++marks_[i];
  const std::size_t b = layout_.slots[i].bucket;
  join_producer(states_[b], stream);
  if (uses_ == Uses::kLearning) {
    if (marks_[i] == 1) order_.push_back(i);
    return;
  }
  if (marks_[i] < expected_[i]) return;
  order_.push_back(i);
  if (--states_[b].missing > 0) return;
  if (recorder_) recorder_->ready(b, stream);
  if (communicates_ && overlap_ && reduction_ == Reduction::kNow) launch_ready(stream);
}

// Gradients of one bucket may come from several streams: chain them, so that the last one holds
// all of them. With one stream, the usual case, nothing is recorded.
void Reducer::join_producer(BucketState& state, Stream stream) const {
  const Stream before = state.producer;
  const bool is_first = !std::exchange(state.has_producer, true);
  state.producer = stream;
  if (is_first || before.native == stream.native) return;
  state.joined.record(before);
  state.joined.make_wait(stream);
}

// A bucket whose gradients are all unused goes with the stream that made the one before it ready.
void Reducer::launch_ready(Stream stream) {
  for (; next_ < states_.size() && states_[next_].missing == 0; ++next_) {
    if (!states_[next_].has_producer) join_producer(states_[next_], stream);
    launch(next_);
  }
}

void Reducer::launch(std::size_t b) {
  BucketState& state = states_[b];
  const cu::ProfilerSpan span(state.span_name.c_str());
  if (b == 0) at_launch_.before_first(state.producer);
  if (zeros_) {
    fill(bucket(b), 0, state.producer);
  } else {
    zero_missing(b, state.producer);
    if (factor_ != nullptr) scale(bucket(b), factor_, state.producer);
  }
  if (layout_.tail_count > 0 && b + 1 == states_.size()) at_launch_.before_last(state.producer);
  const FlightRecorder::Labelled labelled(group_.recorder(), labels_[b]);
  state.work = hook_ ? hook_->launch(describe(b), state.producer)
                     : group_.all_reduce(bucket(b), ReduceOp::kSum, state.producer);
  if (recorder_) recorder_->launched(b, state.work);
  ++launches_;
}

void Reducer::end_backward(Stream consumer) {
  if (recorder_) recorder_->backward_ended(consumer);
  if (uses_ == Uses::kLearning && !order_.empty()) remember_uses();
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    if (marks_[i] > 0) used_[i] = 1;
  }
  const bool launches = communicates_ && reduction_ == Reduction::kNow;
  launches ? launch_rest(consumer) : close_without_launch(consumer);
}

void Reducer::wait(Stream consumer) {
  for (std::size_t b = 0; b < next_; ++b) finish_bucket(b, consumer);
  const bool reduces = reduction_ == Reduction::kNow;
  std::fill(held_.begin(), held_.end(), reduces ? std::uint8_t{0} : std::uint8_t{1});
  ready_order_.swap(order_);
  if (recorder_) recorder_->ended(consumer);
}

void Reducer::remember_uses() {
  expected_ = marks_;
  uses_ = Uses::kLearned;
}

// No all_reduce orders the consumer behind the producers. Within one stream nothing is to do.
void Reducer::close_without_launch(Stream consumer) {
  const bool is_complete = order_.size() == marks_.size();
  for (std::size_t b = 0; b < states_.size(); ++b) {
    if (!is_complete) zero_missing(b, consumer);
    if (states_[b].has_producer) join_producer(states_[b], consumer);
  }
}

void Reducer::launch_rest(Stream consumer) {
  for (; next_ < states_.size(); ++next_) {
    BucketState& state = states_[next_];
    if (state.missing > 0 || !state.has_producer) {
      join_producer(state, consumer);
      if (recorder_) recorder_->ready(next_, consumer);
    }
    launch(next_);
  }
}

void Reducer::finish_bucket(std::size_t b, Stream consumer) {
  if (hook_) {
    hook_->finish(describe(b), consumer);
  } else {
    states_[b].work.wait(consumer);
  }
}

void Reducer::hold_zeros(Stream stream) {
  for (std::size_t b = 0; b < states_.size(); ++b) fill(bucket(b), 0, stream);
  std::fill(held_.begin(), held_.end(), std::uint8_t{1});
}

void Reducer::zero_missing(std::size_t b, Stream stream) const {
  for (const std::size_t i : layout_.buckets[b].parameters) {
    if (marks_[i] == 0 && held_[i] == 0) fill(gradient(i), 0, stream);
  }
}

}  // namespace ddp
