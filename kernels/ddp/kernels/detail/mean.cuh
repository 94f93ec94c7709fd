// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu::launch {

// Runs as one block of kThreads threads. Computes the mean in float64 and in a fixed order; without
// values it is 0.
template <class T>
__global__ void mean_kernel(const T* values, std::size_t count, T* mean) {
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += kThreads) sum += static_cast<double>(values[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) *mean = count == 0 ? T{0} : static_cast<T>(sum / count);
}

}  // namespace ddp::cu::launch
