// SPDX-License-Identifier: MIT
#include "ddp/engine/control_vector.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_state.h"

namespace ddp {

ControlVector::ControlVector(ProcessGroup& group, AfterCount after_count)
    : group_(group),
      is_cuda_(group.device().is_cuda()),
      ledger_(group.world_size()),
      after_count_(group.world_size() > 1 ? std::move(after_count) : nullptr),
      count_(ControlFields::count(group.world_size())),
      memory_(group.allocate(count_ * sizeof(double))) {
  host_ = static_cast<double*>(memory_.data());
  if (!is_cuda_) return;
  arrivals_ = StepArrivals(group.device(), count_);
  to_host_ = cu::OwnedStream(group.device());
  outgoing_ = PinnedRing(group.device(), count_ * sizeof(double), kOutgoing);
  host_ = static_cast<double*>(outgoing_.next());
}

Buffer ControlVector::buffer() const {
  return {memory_.data(), count_, DType::kFloat64, group_.device()};
}

Buffer ControlVector::pass() const { return buffer().slice(0, ControlFields::kPassCount); }

Buffer ControlVector::carried() const {
  return {carried_.data(), ControlFields::kPassCount, DType::kFloat64, group_.device()};
}

[[gnu::hot]] void ControlVector::reset(double samples, double unit) {
  if (is_cuda_) host_ = static_cast<double*>(outgoing_.next());
  if (has_device_values_) device_values_ = {};
  has_device_values_ = false;
  own().begin_pass(samples, unit);
  ++own_passes_;
}

void ControlVector::use_slot(std::size_t slot, double weight) {
  if (slot >= kMaxMetrics) {
    throw std::invalid_argument("[ddp] metric slot " + std::to_string(slot) + " is not below " +
                                std::to_string(kMaxMetrics) +
                                ", the number of metrics that a step can have");
  }
  if (!(weight >= 0) || std::isinf(weight)) {
    throw std::invalid_argument("[ddp] metric " + std::to_string(slot) + " has a weight of " +
                                std::to_string(weight) +
                                ", but a number of samples must be finite and not negative");
  }
  used_slots_ = std::max(used_slots_, slot + 1);
}

void ControlVector::add_metric(std::size_t slot, double value, double weight) {
  use_slot(slot, weight);
  if (weight == 0) return;  // the mean over an empty batch may be NaN
  if (device_values_[slot].count != 0) {
    throw std::invalid_argument("[ddp] metric " + std::to_string(slot) +
                                " already has a value on the device in this pass; such a value "
                                "must be the pass's only one");
  }
  own().add_metric(slot, value, weight);
}

void ControlVector::add_metric(std::size_t slot, const Buffer& value, double weight) {
  use_slot(slot, weight);
  if (weight == 0) return;
  const bool is_taken = own().metric(slot).weight != 0;
  const bool fits = value.count == 1 && value.data != nullptr && value.device == group_.device();
  if (!fits || is_taken) {
    throw std::invalid_argument("[ddp] metric " + std::to_string(slot) + ": got " +
                                to_string(value) + ", expected one element on " +
                                to_string(group_.device()) +
                                " that is the metric's only value in this pass");
  }
  device_values_[slot] = value;
  has_device_values_ = true;
  own().set_metric_weight(slot, weight);
}

// Copies the host's numbers to the device, then adds the metrics whose values are on the device.
void ControlVector::collect(Stream stream) {
  const cu::DeviceGuard guard(group_.device());
  if (is_cuda_) {
    cu::copy_async(memory_.data(), host_, buffer().size_bytes(), stream);
    outgoing_.note_copy(stream);
  }
  for (std::size_t slot = 0; slot < kMaxMetrics; ++slot) {
    if (device_values_[slot].count == 0) continue;
    const Buffer sum = buffer().slice(ControlFields::sum_index(slot), 1);
    const Buffer weight = buffer().slice(ControlFields::weight_index(slot), 1);
    cast(device_values_[slot], sum, stream);
    scale_by_value_at(sum, static_cast<const double*>(weight.data), stream);
  }
}

// Blocks only if the device is StepArrivals::kCapacity steps behind, until it is one step further.
void ControlVector::copy_to_host(Stream stream) {
  if (arrivals_.is_full()) count_next(Wait::kYes);
  count_arrived(Wait::kNo);
  arrivals_.copy(static_cast<const double*>(memory_.data()), stream);
}

// False if the first step that is not counted has not arrived, or if there is none.
bool ControlVector::count_next(Wait wait) {
  double* const sums = arrivals_.front(wait);
  if (sums == nullptr) return false;
  count({sums, group_.world_size()});
  arrivals_.pop();
  if (after_count_) after_count_(ledger_);
  return true;
}

[[gnu::hot]] void ControlVector::count_arrived(Wait wait) {
  while (is_cuda_ && count_next(wait)) {
  }
}

void ControlVector::count(const ControlFields& sums) {
  const std::string mismatch = find_mismatch(sums, group_.state().names);
  if (!mismatch.empty()) {
    group_.check_unbroken();  // the sums of a broken group are garbage
    throw MismatchError("[ddp] " + mismatch);
  }
  ledger_.count(sums);
}

void ControlVector::carry(Stream stream) {
  collect(stream);
  if (carried_.data() == nullptr)
    carried_ = group_.allocate(ControlFields::kPassCount * sizeof(double));
  if (has_carried_) {
    reduce(pass(), carried(), ReduceOp::kSum, stream);
  } else {
    copy(pass(), carried(), stream);
  }
  has_carried_ = true;
}

void ControlVector::launch(const RankState& own_state, Stream producer) {
  own().write_state(group_.rank(), own_state, own_passes_);
  collect(producer);
  if (has_carried_) reduce(carried(), pass(), ReduceOp::kSum, producer);
  has_carried_ = false;
  work_ = group_.all_reduce(buffer(), ReduceOp::kSum, producer);
  if (!is_cuda_) return;
  // On a stream of its own, so that the sums reach the host long before backward ends.
  work_.wait(to_host_.view());
  copy_to_host(to_host_.view());
}

void ControlVector::wait(Stream consumer) {
  own_passes_ = 0;
  if (is_cuda_) {
    // The copy is behind the sum, and must end before the next step writes to the vector.
    arrivals_.make_wait(consumer);
    count_arrived(Wait::kNo);
    arrivals_.push();
  } else {
    work_.wait(consumer);
    count(own());
    if (after_count_) after_count_(ledger_);
  }
  reciprocal(buffer().slice(0, 1), consumer);
}

[[gnu::hot]] void ControlVector::finish_alone(const RankState& own_state, Stream stream) {
  if (!has_device_values_ || !is_cuda_) {
    if (has_device_values_) collect(stream);
    return count_alone(own_state);
  }
  own().write_state(group_.rank(), own_state, own_passes_);
  collect(stream);
  const cu::DeviceGuard guard(group_.device());
  copy_to_host(stream);
  arrivals_.push();
  own_passes_ = 0;
}

// The host knows all numbers of this step, but the sums of earlier steps may not have arrived yet.
void ControlVector::count_alone(const RankState& own_state) {
  count_arrived(Wait::kYes);
  own_passes_ = 0;
  ledger_.count_alone(own(), own_state, used_slots_);
}

ControlLedger& ControlVector::complete_ledger() {
  count_arrived(Wait::kYes);
  return ledger_;
}

[[gnu::hot]] const ControlLedger& ControlVector::arrived_ledger() {
  count_arrived(Wait::kNo);
  return ledger_;
}

}  // namespace ddp
