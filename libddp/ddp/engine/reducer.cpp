// SPDX-License-Identifier: MIT
#include "ddp/engine/reducer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {

Reducer::Reducer(ProcessGroup& group, std::span<const GradientSpec> gradients,
                 const BucketOptions& options, BeforeFirst before_first)
    : group_(group),
      layout_(lay_out_buckets(gradients, options)),
      before_first_(std::move(before_first)),
      communicates_(group.world_size() > 1),
      overlap_(options.overlap),
      memory_(group.allocate(layout_.size_bytes)),
      states_(layout_.buckets.size()),
      labels_(layout_.buckets.size(), 0),
      ready_(gradients.size(), 0),
      held_(gradients.size(), 0) {
  for (const GradientSpec& gradient : gradients) counts_.push_back(gradient.count);
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

void Reducer::begin(Reduction reduction) {
  reduction_ = reduction;
  next_ = 0;
  zeros_ = false;
  factor_ = nullptr;
  if (recorder_) recorder_->begin();
  std::fill(ready_.begin(), ready_.end(), std::uint8_t{0});
  for (std::size_t b = 0; b < states_.size(); ++b) {
    states_[b].missing = layout_.buckets[b].parameters.size();
    states_[b].has_producer = false;
    states_[b].producer = {};
  }
}

void Reducer::mark_ready(std::size_t i, Stream stream) {
  if (ready_.at(i) != 0) {
    throw std::logic_error("gradient " + std::to_string(i) + " was marked ready twice in a step");
  }
  ready_[i] = 1;
  const std::size_t b = layout_.slots[i].bucket;
  join_producer(states_[b], stream);
  if (--states_[b].missing > 0) return;
  if (recorder_) recorder_->ready(b, stream);
  if (communicates_ && overlap_ && reduction_ == Reduction::kNow) launch_ready();
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

void Reducer::launch_ready() {
  while (next_ < states_.size() && states_[next_].missing == 0) launch(next_++);
}

void Reducer::launch(std::size_t b) {
  BucketState& state = states_[b];
  if (b == 0) before_first_(state.producer);
  if (zeros_) {
    fill(bucket(b), 0, state.producer);
  } else if (factor_ != nullptr) {
    scale(bucket(b), factor_, state.producer);
  }
  const FlightRecorder::Labelled labelled(group_.recorder(), labels_[b]);
  state.work = group_.all_reduce(bucket(b), ReduceOp::kSum, state.producer);
  if (recorder_) recorder_->launched(b, state.work);
  ++launches_;
}

void Reducer::wait(Stream consumer) {
  if (recorder_) recorder_->backward_ended(consumer);
  if (reduction_ == Reduction::kLater) {
    for (std::size_t i = 0; i < ready_.size(); ++i) held_[i] |= ready_[i];
    join_all(consumer);
  } else {
    communicates_ ? finish(consumer) : join_all(consumer);
    std::fill(held_.begin(), held_.end(), std::uint8_t{0});
  }
  if (recorder_) recorder_->ended(consumer);
}

// Where no all_reduce orders the consumer behind the producers. Within one stream nothing is to do.
void Reducer::join_all(Stream consumer) {
  for (BucketState& state : states_) {
    if (state.has_producer) join_producer(state, consumer);
  }
}

void Reducer::finish(Stream consumer) {
  for (; next_ < states_.size(); ++next_) {
    BucketState& state = states_[next_];
    if (state.missing > 0) {
      join_producer(state, consumer);
      zero_missing(next_, consumer);
      if (recorder_) recorder_->ready(next_, consumer);
    }
    launch(next_);
  }
  for (const BucketState& state : states_) state.work.wait(consumer);
}

void Reducer::hold_zeros(Stream stream) {
  for (std::size_t b = 0; b < states_.size(); ++b) fill(bucket(b), 0, stream);
  std::fill(held_.begin(), held_.end(), std::uint8_t{1});
}

void Reducer::zero_missing(std::size_t b, Stream stream) const {
  for (const std::size_t i : layout_.buckets[b].parameters) {
    if (ready_[i] == 0 && held_[i] == 0) fill(gradient(i), 0, stream);
  }
}

}  // namespace ddp
