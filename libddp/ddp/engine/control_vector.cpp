// SPDX-License-Identifier: MIT
#include "ddp/engine/control_vector.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {

ControlVector::ControlVector(ProcessGroup& group)
    : group_(group), memory_(group.allocate(kCount * sizeof(double))) {
  if (!group.device().is_cuda()) {
    host_ = static_cast<double*>(memory_.data());
    arrived_ = allocate_host(kCount * sizeof(double));
    return;
  }
  for (Outgoing& each : outgoing_) {
    each = {cu::allocate_pinned(kCount * sizeof(double)), cu::Event(group.device())};
  }
  host_ = static_cast<double*>(outgoing_[0].memory.data());
  arrived_ = cu::allocate_pinned(kCount * sizeof(double));
  copied_ = cu::Event(group.device());
}

Buffer ControlVector::buffer() const {
  return {memory_.data(), kCount, DType::kFloat64, group_.device()};
}

void ControlVector::reset(double samples, double nominal_samples) {
  if (group_.device().is_cuda()) {
    turn_ ^= 1U;
    outgoing_[turn_].sent.synchronize();  // of the step before the last: done long ago
    host_ = static_cast<double*>(outgoing_[turn_].memory.data());
  }
  std::fill_n(host_, kCount, 0.0);
  device_values_ = {};
  has_device_values_ = false;
  host_[0] = samples / nominal_samples;
  host_[1] = samples;
}

void ControlVector::check_slot(std::size_t slot) const {
  if (slot < kMaxMetrics) return;
  throw std::invalid_argument("[ddp] metric slot " + std::to_string(slot) + " is not below " +
                              std::to_string(kMaxMetrics));
}

void ControlVector::add_metric(std::size_t slot, double value, double weight) {
  check_slot(slot);
  if (weight == 0) return;  // an empty batch may have a NaN for its mean
  host_[sum_index(slot)] += value * weight;
  host_[weight_index(slot)] += weight;
}

void ControlVector::add_metric(std::size_t slot, const Buffer& value, double weight) {
  check_slot(slot);
  const bool is_taken = host_[weight_index(slot)] != 0;
  if (value.count != 1 || value.device != group_.device() || is_taken) {
    throw std::invalid_argument("[ddp] metric " + std::to_string(slot) + ": " + to_string(value) +
                                " is not the step's only value, one element on " +
                                to_string(group_.device()));
  }
  if (weight == 0) return;
  device_values_[slot] = value;
  has_device_values_ = true;
  host_[weight_index(slot)] = weight;
}

// What the host knows goes to the device; what the device knows joins it there.
void ControlVector::collect(Stream stream) {
  if (group_.device().is_cuda()) {
    cu::copy_async(memory_.data(), host_, buffer().size_bytes(), stream);
    outgoing_[turn_].sent.record(stream);
  }
  for (std::size_t slot = 0; slot < kMaxMetrics; ++slot) {
    if (device_values_[slot].count == 0) continue;
    const Buffer sum = buffer().slice(sum_index(slot), 1);
    const Buffer weight = buffer().slice(weight_index(slot), 1);
    cast(device_values_[slot], sum, stream);
    scale(sum, static_cast<const double*>(weight.data), stream);
  }
}

void ControlVector::copy_to_host(Stream stream) {
  if (!group_.device().is_cuda()) {
    std::copy_n(host_, kCount, static_cast<double*>(arrived_.data()));
    return;
  }
  cu::copy_async(arrived_.data(), memory_.data(), buffer().size_bytes(), stream);
  copied_.record(stream);
}

void ControlVector::launch(Stream producer) {
  collect(producer);
  work_ = group_.all_reduce(buffer(), ReduceOp::kSum, producer);
}

void ControlVector::wait(Stream consumer) {
  work_.wait(consumer);
  reciprocal(buffer().slice(0, 1), consumer);
  copy_to_host(consumer);
}

void ControlVector::settle(Stream stream) {
  if (has_device_values_) {
    collect(stream);
    return copy_to_host(stream);
  }
  if (group_.device().is_cuda()) copied_.synchronize();
  std::copy_n(host_, kCount, static_cast<double*>(arrived_.data()));
}

StepSummary ControlVector::read() {
  if (group_.device().is_cuda()) copied_.synchronize();
  const auto* sums = static_cast<const double*>(arrived_.data());
  StepSummary summary;
  summary.samples = sums[1];
  for (std::size_t slot = 0; slot < kMaxMetrics; ++slot) {
    summary.metrics[slot] = {sums[sum_index(slot)], sums[weight_index(slot)]};
  }
  return summary;
}

}  // namespace ddp
