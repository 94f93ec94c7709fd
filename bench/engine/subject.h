// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/cuda/cuda.h"
#include "ddp/engine/distributed_data_parallel.h"

namespace ddp::bench {

// Samples of steps, in microseconds of host time, except the last field.
struct HostTimes {
  std::vector<double> begin_step;
  std::vector<double> mark_ready;  // a call after which the bucket still lacks gradients
  std::vector<double> launching;   // a call that launches a bucket
  std::vector<double> wait;
  std::vector<double> step;  // all of the above, for all parameters
  std::vector<std::int64_t> allocations;
};

// The engine on a model with as many parameters as GPT-2 small, without a backward.
class HostTimeSubject {
 public:
  static constexpr std::size_t kParameters = 148;
  static constexpr std::size_t kParameterBytes = 64 << 10;
  static constexpr std::size_t kBucketBytes = 1 << 20;

  // Sleeps for `pause` before each launch, in place of a backward that goes on.
  explicit HostTimeSubject(std::shared_ptr<ProcessGroup> group,
                           std::chrono::microseconds pause = {});

  [[nodiscard]] HostTimes measure(int rounds);

 private:
  [[nodiscard]] std::vector<Parameter> parameters(Device device);
  void step(HostTimes& times);

  std::chrono::microseconds pause_;
  std::optional<cu::OwnedStream> stream_;  // on CUDA
  std::vector<Allocation> values_;
  DistributedDataParallel ddp_;
};

}  // namespace ddp::bench
