// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/reduce_op.h"

namespace ddp::bench {

// Fills a buffer with small integers that depend on rank and index, and counts the elements that
// an all_reduce left wrong. The expected value is exact in every dtype for up to 80 ranks, but for
// averages, which are given the rounding of the dtype. Works in blocks through float64.
class Checker {
 public:
  explicit Checker(Device device);

  void fill(const Buffer& target, int rank, ReduceOp op);
  [[nodiscard]] std::size_t count_wrong(const Buffer& result, int world_size, ReduceOp op);

 private:
  // A block of float64 as the host sees it, and where the device wants it (the same on the CPU).
  [[nodiscard]] Buffer host_block(std::size_t count) const;
  [[nodiscard]] Buffer device_block(std::size_t count) const;

  Device device_;
  Allocation host_;
  Allocation device_memory_;
};

}  // namespace ddp::bench
