// SPDX-License-Identifier: MIT
#include "ddp/engine/control_vector.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {

ControlVector::ControlVector(ProcessGroup& group)
    : group_(group), memory_(group.allocate(kCount * sizeof(double))) {
  if (group.device().is_cuda()) {
    staging_ = cu::allocate_pinned(kCount * sizeof(double));
    copied_ = cu::Event(group.device());
    host_ = static_cast<double*>(staging_.data());
  } else {
    host_ = static_cast<double*>(memory_.data());
  }
}

Buffer ControlVector::buffer() const {
  return {memory_.data(), kCount, DType::kFloat64, group_.device()};
}

void ControlVector::reset(double samples, double nominal_samples) {
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
  host_[sum_index(slot)] += value * weight;
  host_[weight_index(slot)] += weight;
}

void ControlVector::add_metric(std::size_t slot, const Buffer& value, double weight) {
  check_slot(slot);
  if (value.count != 1 || value.device != group_.device() || device_values_[slot].count != 0) {
    throw std::invalid_argument("[ddp] metric " + std::to_string(slot) + ": " + to_string(value) +
                                " is not the step's only value, one element on " +
                                to_string(group_.device()));
  }
  if (weight == 0) return;  // an empty batch may have a NaN for its mean
  device_values_[slot] = value;
  has_device_values_ = true;
  host_[weight_index(slot)] = weight;
}

// What the host knows goes to the device; what the device knows joins it there.
void ControlVector::collect(Stream stream) {
  if (group_.device().is_cuda()) {
    cu::copy_async(memory_.data(), host_, buffer().size_bytes(), stream);
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
  if (!group_.device().is_cuda()) return;
  cu::copy_async(host_, memory_.data(), buffer().size_bytes(), stream);
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
  if (!has_device_values_) return;
  collect(stream);
  copy_to_host(stream);
}

StepSummary ControlVector::read() {
  if (group_.device().is_cuda()) copied_.synchronize();
  StepSummary summary;
  summary.samples = host_[1];
  for (std::size_t slot = 0; slot < kMaxMetrics; ++slot) {
    summary.metrics[slot] = {host_[sum_index(slot)], host_[weight_index(slot)]};
  }
  return summary;
}

}  // namespace ddp
