// SPDX-License-Identifier: MIT
#include "ddp/cuda/check.h"
#include "ddp/cuda/cuda.h"
#include "support/simulated_collective.h"

namespace ddp::bench {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kAccessesPerLook = 8;  // at the clock

__device__ unsigned long long nanoseconds_now() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// A thread keeps to its own places, so nothing races.
__global__ void collective_kernel(uint4* packs, std::size_t count, unsigned long long nanoseconds) {
  const unsigned long long begin = nanoseconds_now();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  std::size_t i = first;
  while (nanoseconds_now() - begin < nanoseconds) {
    for (unsigned access = 0; access < kAccessesPerLook && first < count; ++access) {
      __stwt(&packs[i], __ldcv(&packs[i]));
      i = i + step < count ? i + step : first;
    }
  }
}

}  // namespace

void launch_simulated_collective(const Buffer& operand, std::chrono::nanoseconds time,
                                 unsigned blocks, Stream stream) {
  const cu::DeviceGuard guard(operand.device);
  collective_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream.native)>>>(
      static_cast<uint4*>(operand.data), operand.size_bytes() / sizeof(uint4),
      static_cast<unsigned long long>(time.count()));
  DDP_CUDA_CHECK(cudaGetLastError());
}

}  // namespace ddp::bench
