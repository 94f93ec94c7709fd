// SPDX-License-Identifier: MIT
//
// In place of libddp/ddp/cuda/launch.cuh: what the .cu files need of CUDA's language, in C++. A
// name that is missing here is one that no kernel has needed yet.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>

#include "cuda_emulation/block.h"
#include "cuda_emulation/stream.h"
#include "ddp/base/stream.h"
#include "ddp/cuda/check.h"

// Of the block that runs on this thread of the host. It is not reset from block to block, as on a
// GPU.
#undef __shared__
#define __shared__ static thread_local

#define threadIdx ::ddp::emulation::thread_index
#define blockIdx ::ddp::emulation::block_index
#define blockDim ::ddp::emulation::block_size
#define gridDim ::ddp::emulation::grid_size

using std::abs;
using std::exp;
using std::isfinite;
using std::log;
using std::log1p;
using std::max;
using std::min;
using std::pow;
using std::sqrt;

inline void __syncthreads() { ddp::emulation::sync_threads(); }

template <class T>
T value_of_lane(unsigned lanes, T value, unsigned from) {
  std::uint64_t bits = 0;
  static_assert(sizeof value <= sizeof bits);
  std::memcpy(&bits, &value, sizeof value);
  bits = ddp::emulation::exchange(lanes, from, bits);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
T __shfl_xor_sync(unsigned lanes, T value, unsigned mask) {
  return value_of_lane(lanes, value, ddp::emulation::lane() ^ mask);
}

// The last lanes keep their own.
template <class T>
T __shfl_down_sync(unsigned lanes, T value, unsigned distance) {
  const unsigned lane = ddp::emulation::lane(), from = lane + distance;
  return value_of_lane(lanes, value, from < ddp::emulation::kWarp ? from : lane);
}

template <class T>
T atomicAdd(T* target, T value) {
  return std::atomic_ref<T>(*target).fetch_add(value);
}

namespace ddp::cu {

template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, Stream stream,
                   Arguments&&... arguments) {
  const std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  DDP_CUDA_CHECK(emulation::launch(blocks, threads, static_cast<cudaStream_t>(stream.native),
                                   [=] { std::apply(kernel, values); }));
}

}  // namespace ddp::cu
