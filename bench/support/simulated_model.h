// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"

namespace ddp::bench {

// Where the backward of a layer runs: on this rank's CPU, or elsewhere, as on an accelerator. In
// the latter case it continues while the host is busy.
enum class BackwardKind { kOnCpu, kElsewhere };

struct ModelShape {
  std::size_t layers = 32;
  std::size_t layer_bytes = std::size_t{128} << 10;
  std::chrono::nanoseconds layer_time = std::chrono::microseconds(100);
};

struct StepCost {
  double milliseconds = 0;   // per step
  double mark_ready_us = 0;  // per call
  double allocations = 0;    // per step, in all threads
};

// Parameters "layer0", "layer1", ... with these values.
[[nodiscard]] std::vector<Parameter> parameters_of(std::vector<std::vector<float>>& values);

// A model of equal layers, whose backward takes a given time and whose gradients are float32.
class SimulatedModel {
 public:
  SimulatedModel(std::shared_ptr<ProcessGroup> group, const ModelShape& shape, DdpOptions options);

  // The mean cost of `steps` steps.
  [[nodiscard]] StepCost run(BackwardKind kind, int steps);
  // The same without reductions; returns milliseconds per step.
  [[nodiscard]] double run_backward(BackwardKind kind, int steps) const;

  [[nodiscard]] DistributedDataParallel& engine() { return ddp_; }
  [[nodiscard]] std::size_t bucket_count() const { return ddp_.layout().buckets.size(); }

 private:
  // Returns when the backward of `layers` layers, which started at `begin`, is done.
  void backward(BackwardKind kind, std::size_t layers, Clock::time_point begin) const;

  ModelShape shape_;
  std::vector<std::vector<float>> values_;
  DistributedDataParallel ddp_;
};

}  // namespace ddp::bench
