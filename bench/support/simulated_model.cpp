// SPDX-License-Identifier: MIT
#include "support/simulated_model.h"

#include <string>
#include <utility>

#include "support/allocation_counter.h"
#include "support/precise_sleep.h"

namespace ddp::bench {
namespace {

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

std::vector<Parameter> parameters_of(std::vector<std::vector<float>>& values) {
  std::vector<Parameter> result;
  for (std::vector<float>& value : values) {
    const auto count = static_cast<std::int64_t>(value.size());
    result.push_back({"layer" + std::to_string(result.size()), {count}, buffer_of(value)});
  }
  return result;
}

SimulatedModel::SimulatedModel(std::shared_ptr<ProcessGroup> group, const ModelShape& shape,
                               DdpOptions options)
    : shape_(shape),
      values_(shape.layers, std::vector<float>(shape.layer_bytes / sizeof(float))),
      ddp_(std::move(group), parameters_of(values_), std::move(options)) {}

void SimulatedModel::backward(BackwardKind kind, std::size_t layers,
                              Clock::time_point begin) const {
  const auto count = static_cast<std::int64_t>(layers);
  if (kind == BackwardKind::kElsewhere) {
    return sleep_precisely_until(begin + count * shape_.layer_time);
  }
  const Clock::time_point end = Clock::now() + shape_.layer_time;
  while (Clock::now() < end) continue;
}

StepCost SimulatedModel::run(BackwardKind kind, int steps) {
  Clock::duration in_mark_ready{0};
  const std::int64_t allocations = test::allocations();
  const Clock::time_point begin = Clock::now();
  for (int step = 0; step < steps; ++step) {
    const Clock::time_point step_begin = Clock::now();
    (void)ddp_.begin_step();
    for (std::size_t i = shape_.layers; i-- > 0;) {
      backward(kind, shape_.layers - i, step_begin);
      const Clock::time_point call = Clock::now();
      ddp_.mark_ready(i);
      in_mark_ready += Clock::now() - call;
    }
    ddp_.wait();
    values_[0][0] += 1;  // in place of an optimizer, which the engine misses
  }
  const std::chrono::duration<double, std::micro> marking = in_mark_ready;
  return {.milliseconds = milliseconds_since(begin) / steps,
          .mark_ready_us = marking.count() / (steps * static_cast<double>(shape_.layers)),
          .allocations = static_cast<double>(test::allocations() - allocations) / steps};
}

double SimulatedModel::run_backward(BackwardKind kind, int steps) const {
  const Clock::time_point begin = Clock::now();
  for (int step = 0; step < steps; ++step) {
    const Clock::time_point step_begin = Clock::now();
    for (std::size_t i = 0; i < shape_.layers; ++i) backward(kind, i + 1, step_begin);
  }
  return milliseconds_since(begin) / steps;
}

}  // namespace ddp::bench
