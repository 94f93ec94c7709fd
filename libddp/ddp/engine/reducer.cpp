// SPDX-License-Identifier: MIT
#include "ddp/engine/reducer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/base/log.h"
#include "ddp/base/log_if_possible.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_scopes.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/cuda/profiler_span.h"

namespace ddp {

namespace {

// More streams than these may produce gradients, but noting them may allocate.
constexpr std::size_t kUsualProducers = 16;

// For destructors.
void warn_of_hanging(const char* memory) {
  log_if_possible([&] {
    logging::warning(std::string("[ddp] a hanging collective may still write to ") + memory);
  });
}

// Memory from the group is zeroed; the caller's memory is taken as it is. Before it is freed, it is
// released from the group's operations.
Allocation memory_for(ProcessGroup& group, const Buffer& flat_gradients, std::size_t size_bytes) {
  if (flat_gradients.data == nullptr) return group.allocate(size_bytes);
  return {flat_gradients.data, size_bytes, [&group, flat_gradients](void*) {
            if (!group.release(flat_gradients)) warn_of_hanging("flat_gradients");
          }};
}

}  // namespace

Reducer::Reducer(ProcessGroup& group, std::span<const GradientSpec> gradients,
                 const Options& options, BeforeLaunch before_launch)
    : group_(group),
      issuer_(new_issuer(group)),
      packing_(options.flat_gradients.data != nullptr ? Packing::kDense : Packing::kAligned),
      layout_(lay_out_buckets(gradients, options.buckets, options.tail_count, packing_)),
      before_launch_(std::move(before_launch)),
      memory_(memory_for(group, options.flat_gradients, layout_.size_bytes)),
      launches_(layout_.buckets.size()),
      buckets_(layout_.buckets.size()),
      communicates_(group.world_size() > 1),
      overlap_(options.buckets.overlap),
      divisor_(communicates_ && !group.device().is_cuda() ? options.divisor : nullptr) {
  producers_.reserve(kUsualProducers);
  if (group.device().is_cuda()) held_ = cu::Event(group.device());
  order_.reserve(gradients.size());
  ready_order_.reserve(gradients.size());
  for (const GradientSpec& gradient : gradients) counts_.push_back(gradient.count);
  for (const GradientSlot& slot : layout_.slots) {
    gradients_.push_back({.bucket = static_cast<std::uint32_t>(slot.bucket)});
  }
  for (std::size_t b = 0; b < launches_.size(); ++b) {
    launches_[b].span_name = "ddp bucket " + std::to_string(b);
    if (group.device().is_cuda()) launches_[b].joined = cu::Event(group.device());
  }
  if (communicates_ && options.make_hook) hook_ = options.make_hook(group, layout_);
  if (options.record_times) recorder_ = std::make_unique<StepRecorder>(group, layout_);
}

Reducer::~Reducer() {
  if (hook_ && is_reducing_) release_from_hook();
}

// The memory itself is only released from the operations of the engine's group. A launch that threw
// did not tell its group; the hook that made it ends before the memory.
void Reducer::release_from_hook() const {
  for (std::size_t b = 0; b < next_; ++b) {
    ProcessGroup* group = launches_[b].work.group;
    if (group == nullptr || group == &group_) continue;
    if (!group->release(bucket(b))) warn_of_hanging("a bucket");
  }
}

void Reducer::set_labels(std::span<const FlightRecorder::Label> labels) {
  for (std::size_t b = 0; b < launches_.size(); ++b) launches_[b].label = labels[b];
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
  return bucket(buckets_.size() - 1).slice(layout_.tail_offset, layout_.tail_count);
}

GradientBucket Reducer::describe(std::size_t b) const {
  return {b, bucket(b), layout_.buckets[b].parameters, b + 1 == buckets_.size()};
}

void Reducer::learn_uses() {
  uses_ = Uses::kLearning;
  for (GradientState& gradient : gradients_) gradient.expected = 0;
}

[[gnu::hot]] void Reducer::begin(const Pass& pass) {
  pass_ = pass;
  next_ = 0;
  order_.clear();
  producers_.clear();
  if (recorder_) recorder_->begin();
  for (BucketState& bucket : buckets_) bucket = {};
  for (GradientState& gradient : gradients_) {
    gradient.marks = 0;
    if (pass.begins_step) gradient.is_used = false;
    if (gradient.expected > 0) ++buckets_[gradient.bucket].missing;
  }
}

[[gnu::hot]] void Reducer::mark_ready(std::size_t i, Stream stream) {
  if (!accepts(i)) {
    throw std::logic_error("gradient " + std::to_string(i) + " was marked ready too often");
  }
  GradientState& gradient = gradients_[i];
  ++gradient.marks;
  gradient.is_used = gradient.is_used || pass_.samples > 0;
  const std::size_t b = gradient.bucket;
  join_producer(b, stream);
  if (uses_ == Uses::kLearning) {
    if (gradient.marks == 1) order_.push_back(i);
    return;
  }
  if (gradient.marks < gradient.expected) return;
  order_.push_back(i);
  if (--buckets_[b].missing > 0) return;
  if (reduces()) group_.recorder().bucket_ready(launches_[b].label);
  if (recorder_) recorder_->ready(b, stream);
  if (reduces() && overlap_) launch_ready(stream);
}

// Gradients of one bucket may come from several streams. These are chained by events, so that the
// last stream runs after all of them. With one stream, the usual case, no event is recorded.
[[gnu::hot]] void Reducer::join_producer(std::size_t b, Stream stream) {
  const Stream before = std::exchange(buckets_[b].producer, stream);
  const bool is_first = !std::exchange(buckets_[b].has_producer, true);
  if (!is_first && before.native == stream.native) return;
  note_producer(stream);
  if (is_first) return;
  launches_[b].joined.record(before);
  launches_[b].joined.make_wait(stream);
}

void Reducer::note_producer(Stream stream) {
  const auto is_same = [&](const Stream& each) { return each.native == stream.native; };
  if (std::ranges::none_of(producers_, is_same)) producers_.push_back(stream);
}

void Reducer::order_producers_behind(Stream stream) {
  if (producers_.empty() && group_.device().is_cuda()) {
    const cu::DeviceGuard guard(group_.device());  // whose default stream may be meant
    return cu::synchronize(stream);
  }
  bool is_recorded = false;
  for (const Stream& producer : producers_) {
    if (producer.native == stream.native) continue;
    if (!std::exchange(is_recorded, true)) held_.record(stream);
    held_.make_wait(producer);
  }
}

// A bucket whose gradients are all unused has no stream of its own; it takes the stream that
// completed the bucket before it.
void Reducer::launch_ready(Stream stream) {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    if (!buckets_[next_].has_producer) join_producer(next_, stream);
    launch(next_);
  }
}

void Reducer::launch(std::size_t b) {
  const Stream producer = buckets_[b].producer;
  BucketLaunch& launch = launches_[b];
  const cu::ProfilerSpan span(launch.span_name.c_str());
  const ScopedIssuer issued(group_, issuer_);
  zero_missing(b, producer);
  const double factor = pass_.factors.buckets;
  if (factor != 1 && !adds_zeros()) scale(bucket(b), factor, producer);
  before_launch_(b, producer);
  const ScopedKnownLabel labelled(group_, launch.label);
  is_reducing_ = true;
  launch.work = hook_ ? hook_->launch(describe(b), producer) : all_reduce(b, producer);
  if (recorder_) recorder_->launched(b, launch.work);
  ++launch_count_;
}

Work Reducer::all_reduce(std::size_t b, Stream producer) {
  if (!divides(b)) return group_.all_reduce(bucket(b), ReduceOp::kSum, producer);
  const ScopedDivisor divided(group_, divisor_);
  return group_.all_reduce(bucket(b), ReduceOp::kAverage, producer);
}

[[gnu::hot]] void Reducer::end_backward(Stream consumer) {
  if (recorder_) recorder_->backward_ended(consumer);
  // A pass without samples may leave out marks, so nothing can be learned from it.
  if (uses_ == Uses::kLearning && pass_.samples > 0 && !order_.empty()) remember_uses();
  reduces() ? launch_rest(consumer) : close_without_launch(consumer);
}

// A group's operations end in order, so without a hook a stream need only wait for the last bucket.
// On the CPU the host waits, and takes part in the reductions: bucket by bucket.
[[gnu::hot]] void Reducer::wait(Stream consumer) {
  const bool waits_for_last = !hook_ && group_.device().is_cuda() && next_ > 0;
  for (std::size_t b = waits_for_last ? next_ - 1 : 0; b < next_; ++b) finish_bucket(b, consumer);
  is_reducing_ = false;
  ready_order_.swap(order_);
  if (recorder_) recorder_->ended(consumer);
}

// Likewise, the last operation of the group is enough; a hook may use other groups, too.
void Reducer::wait_host() const {
  for (std::size_t b = hook_ || next_ == 0 ? 0 : next_ - 1; b < next_; ++b) {
    const Work& work = launches_[b].work;
    if (work.group != nullptr) work.wait_host();  // a hook may send nothing
  }
}

void Reducer::release() noexcept {
  if (!group_.device().is_cuda()) return;
  static_cast<void>(group_.release(bucket(layout_.buckets.size() - 1)));
}

void Reducer::remember_uses() {
  for (GradientState& gradient : gradients_) gradient.expected = gradient.marks;
  uses_ = Uses::kLearned;
}

// Orders the consumer behind the producers, which an all_reduce does otherwise. If all of them are
// one stream, there is nothing to do.
void Reducer::close_without_launch(Stream consumer) {
  const bool may_miss = adds_zeros() || !are_all_ready();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (buckets_[b].has_producer) join_producer(b, consumer);
    if (may_miss) zero_missing(b, consumer);
  }
}

void Reducer::launch_rest(Stream consumer) {
  for (; next_ < buckets_.size(); ++next_) {
    const BucketState& bucket = buckets_[next_];
    if (bucket.missing > 0 || !bucket.has_producer) {
      join_producer(next_, consumer);
      if (recorder_) recorder_->ready(next_, consumer);
    }
    launch(next_);
  }
}

void Reducer::finish_bucket(std::size_t b, Stream consumer) {
  if (hook_) {
    hook_->finish(describe(b), consumer);
  } else {
    launches_[b].work.wait(consumer);
  }
}

// Zeroes what this rank has nothing to add to.
void Reducer::zero_missing(std::size_t b, Stream stream) const {
  if (adds_zeros()) return fill(bucket(b), 0, stream);
  if (is_held()) return;
  for (const std::size_t i : layout_.buckets[b].parameters) {
    if (!is_marked(i)) fill(gradient(i), 0, stream);
  }
}

}  // namespace ddp
