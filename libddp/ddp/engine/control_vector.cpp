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
  host_[0] = samples / nominal_samples;
  host_[1] = samples;
}

void ControlVector::add_metric(std::size_t slot, double value, double weight) {
  if (slot >= kMaxMetrics) {
    throw std::invalid_argument("metric slot " + std::to_string(slot) + " is not below " +
                                std::to_string(kMaxMetrics));
  }
  host_[2 + 2 * slot] += value * weight;
  host_[3 + 2 * slot] += weight;
}

void ControlVector::launch(Stream producer) {
  if (group_.device().is_cuda()) {
    cu::copy_async(memory_.data(), host_, buffer().size_bytes(), producer);
  }
  work_ = group_.all_reduce(buffer(), ReduceOp::kSum, producer);
}

void ControlVector::wait(Stream consumer) {
  work_.wait(consumer);
  reciprocal(buffer().slice(0, 1), consumer);
  if (!group_.device().is_cuda()) return;
  cu::copy_async(host_, memory_.data(), buffer().size_bytes(), consumer);
  copied_.record(consumer);
}

StepSummary ControlVector::read() {
  if (group_.device().is_cuda()) copied_.synchronize();
  StepSummary summary;
  summary.samples = host_[1];
  for (std::size_t slot = 0; slot < kMaxMetrics; ++slot) {
    summary.metrics[slot] = {host_[2 + 2 * slot], host_[3 + 2 * slot]};
  }
  return summary;
}

}  // namespace ddp
