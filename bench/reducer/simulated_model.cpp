// SPDX-License-Identifier: MIT
#include "reducer/simulated_model.h"

#include <string>
#include <thread>
#include <utility>

#include "support/allocation_counter.h"

namespace ddp::bench {
namespace {

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

SimulatedModel::SimulatedModel(std::shared_ptr<ProcessGroup> group, const ModelShape& shape,
                               const BucketOptions& buckets)
    : shape_(shape),
      values_(shape.layers, std::vector<float>(shape.layer_bytes / sizeof(float))),
      ddp_(std::move(group), parameters(), {.buckets = buckets}) {}

std::vector<Parameter> SimulatedModel::parameters() {
  std::vector<Parameter> result;
  for (std::vector<float>& value : values_) {
    const auto count = static_cast<std::int64_t>(value.size());
    result.push_back({"layer" + std::to_string(result.size()), {count}, buffer_of(value)});
  }
  return result;
}

void SimulatedModel::backward_of_layer(BackwardKind kind) const {
  const Clock::time_point end = Clock::now() + shape_.layer_time;
  if (kind == BackwardKind::kElsewhere) return std::this_thread::sleep_until(end);
  while (Clock::now() < end) continue;
}

StepCost SimulatedModel::run(BackwardKind kind, int steps) {
  Clock::duration in_mark_ready{0};
  const std::int64_t allocations = test::allocations();
  const Clock::time_point begin = Clock::now();
  for (int step = 0; step < steps; ++step) {
    (void)ddp_.begin_step();
    for (std::size_t i = shape_.layers; i-- > 0;) {
      backward_of_layer(kind);
      const Clock::time_point call = Clock::now();
      ddp_.mark_ready(i);
      in_mark_ready += Clock::now() - call;
    }
    ddp_.wait();
  }
  const std::chrono::duration<double, std::micro> marking = in_mark_ready;
  return {.milliseconds = milliseconds_since(begin) / steps,
          .mark_ready_us = marking.count() / (steps * static_cast<double>(shape_.layers)),
          .allocations = static_cast<double>(test::allocations() - allocations) / steps};
}

double SimulatedModel::run_backward(BackwardKind kind, int steps) const {
  const Clock::time_point begin = Clock::now();
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < shape_.layers; ++i) backward_of_layer(kind);
  }
  return milliseconds_since(begin) / steps;
}

}  // namespace ddp::bench
