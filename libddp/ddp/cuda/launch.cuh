// SPDX-License-Identifier: MIT
//
// The one place that launches kernels, for .cu files only. They get CUDA's language by this header:
// tests/cuda_emulation puts another of its name before it and so runs them on a CPU.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "ddp/base/stream.h"
#include "ddp/cuda/check.h"

namespace ddp::cu {

// Throws CudaError unless CUDA accepts it.
template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, Stream stream,
                   Arguments&&... arguments) {
  kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream.native)>>>(
      std::forward<Arguments>(arguments)...);
  DDP_CUDA_CHECK(cudaGetLastError());
}

}  // namespace ddp::cu
