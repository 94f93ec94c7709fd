// SPDX-License-Identifier: MIT
//
// For kernels in which one block of kChannelThreads threads sums one channel. A model may have as
// few as 64 channels, fewer than a GPU has multiprocessors, so a block is as large as it can be.
#pragma once

#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu::launch {

inline constexpr unsigned kChannelThreads = 1024;

// Launches a kernel whose blocks take the channels in turn.
template <class... Parameters, class... Arguments>
void run_channels(void (*kernel)(Parameters...), std::size_t channels, Stream stream,
                  Arguments&&... arguments) {
  launch_kernel(kernel, blocks_for(channels, 1), kChannelThreads, stream,
                std::forward<Arguments>(arguments)...);
}

// Calls visit(at) for this thread's elements of a channel, in a fixed order; `at` is where an
// element is in the tensor. The threads of a block visit every element once. There is no division
// in the loop, which costs more than the access to memory.
template <class Visit>
__device__ void visit_channel(const ChannelShape& shape, std::size_t channel, const Visit& visit) {
  if (shape.plane == 0) return;
  const std::size_t samples = kChannelThreads / shape.plane, rest = kChannelThreads % shape.plane;
  std::size_t sample = threadIdx.x / shape.plane, offset = threadIdx.x % shape.plane;
#pragma unroll 4
  while (sample < shape.batch) {
    visit((sample * shape.channels + channel) * shape.plane + offset);
    sample += samples;
    offset += rest;
    if (offset < shape.plane) continue;
    offset -= shape.plane;
    ++sample;
  }
}

}  // namespace ddp::cu::launch
