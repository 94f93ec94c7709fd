// SPDX-License-Identifier: MIT
//
// The only place that launches kernels. For .cu files only, which include CUDA's headers through
// this one: tests/cuda_emulation puts a header of the same name earlier in the include path, and so
// runs the kernels on a CPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "ddp/base/stream.h"
#include "ddp/cuda/check.h"

namespace ddp::cu {

// How many blocks our kernels ask for at most, looping over what is left. The emulation has fewer.
inline constexpr std::size_t kMaxGridBlocks = 65535;

// Throws CudaError if CUDA rejects the launch.
template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, Stream stream,
                   Arguments&&... arguments) {
  kernel<<<blocks, threads, 0, stream.native>>>(std::forward<Arguments>(arguments)...);
  DDP_CUDA_CHECK(cudaGetLastError());
}

}  // namespace ddp::cu
