// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/cuda/cuda.h"
#include "ddp/cuda/device_clock.h"

namespace ddp {

// When the last operations on one CUDA stream ran, measured by an event before and one after each.
// For one thread at a time.
class OperationTimer {
 public:
  OperationTimer(Device device, Stream stream, std::uint64_t capacity);

  [[nodiscard]] std::uint64_t capacity() const { return slots_.size(); }
  void begin(std::uint64_t sequence);
  void end(std::uint64_t sequence);
  // Nothing unless the operation is among the last `capacity`, was timed and is done.
  [[nodiscard]] std::optional<Interval> interval(std::uint64_t sequence);

 private:
  struct Slot {
    std::uint64_t sequence = 0;
    cu::Event begin;
    cu::Event end;
  };

  Stream stream_;
  cu::DeviceClock clock_;
  std::vector<Slot> slots_;
};

}  // namespace ddp
