// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/reduce_op.h"

namespace ddp::bench {

// Fills a buffer with small integers that depend on rank and index, and counts the wrong elements
// after an all_reduce. For up to 80 ranks the expected value is exact in every dtype, except for
// averages, which may differ by the rounding of the dtype. Converts in blocks to and from float64.
class Checker {
 public:
  explicit Checker(Device device);

  void fill(const Buffer& target, int rank, ReduceOp op);
  [[nodiscard]] std::size_t count_wrong(const Buffer& result, int world_size, ReduceOp op);

 private:
  // A block of float64 in host memory and in device memory; the same block on the CPU.
  [[nodiscard]] Buffer host_block(std::size_t count) const;
  [[nodiscard]] Buffer device_block(std::size_t count) const;

  Device device_;
  Allocation host_;
  Allocation device_memory_;
};

}  // namespace ddp::bench
