// SPDX-License-Identifier: MIT
#include "ddp/cuda/check.h"
#include "ddp/cuda/cuda.h"
#include "support/simulated_collective.h"

namespace ddp::bench {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kAccessesPerLook = 8;  // memory accesses between two readings of the clock

__device__ unsigned long long nanoseconds_now() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Each thread accesses only its own elements, so there are no data races.
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

// One thread records the successive values of the clock until it has seen `count` of them.
__global__ void clock_kernel(unsigned long long* values, unsigned count, unsigned max_looks) {
  unsigned seen = 0;
  unsigned long long last = 0;
  for (unsigned look = 0; look < max_looks && seen < count; ++look) {
    const unsigned long long now = nanoseconds_now();
    if (now == last) continue;
    values[seen++] = last = now;
  }
}

}  // namespace

void launch_simulated_collective(const Buffer& operand, std::chrono::nanoseconds time,
                                 unsigned blocks, Stream stream) {
  const cu::DeviceGuard guard(operand.device);
  collective_kernel<<<blocks, kThreads, 0, stream.native>>>(
      static_cast<uint4*>(operand.data), operand.size_bytes() / sizeof(uint4),
      static_cast<unsigned long long>(time.count()));
  DDP_CUDA_CHECK(cudaGetLastError());
}

std::vector<double> steps_of_device_clock(Device device, std::size_t count) {
  constexpr unsigned kMaxLooks = 1U << 22;  // about a tenth of a second
  const cu::DeviceGuard guard(device);
  std::vector<unsigned long long> values(count + 1);
  const std::size_t size_bytes = values.size() * sizeof values[0];
  const Allocation memory = cu::allocate_device(size_bytes, device);
  clock_kernel<<<1, 1>>>(static_cast<unsigned long long*>(memory.data()),
                         static_cast<unsigned>(values.size()), kMaxLooks);
  DDP_CUDA_CHECK(cudaGetLastError());
  cu::copy_async(values.data(), memory.data(), size_bytes, {});
  cu::synchronize({});
  std::vector<double> steps;
  for (std::size_t i = 1; i < values.size() && values[i] > values[i - 1]; ++i) {
    steps.push_back(static_cast<double>(values[i] - values[i - 1]));
  }
  return steps;
}

}  // namespace ddp::bench
