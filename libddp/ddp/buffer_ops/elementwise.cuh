// SPDX-License-Identifier: MIT
//
// Shared by element-wise kernels: conversions between dtypes, and one grid-stride kernel that runs
// any operation. An operation is a struct whose at<N>(i) handles N neighbouring elements from i on.
// N elements fill a 16-byte access if all operands are aligned to 16 bytes; N is 1 for the tail and
// for unaligned slices. For .cu files only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ddp/base/dtype.h"
#include "ddp/base/stream.h"
#include "ddp/cuda/launch.cuh"

namespace ddp::cu::elementwise {

inline constexpr unsigned kBlockSize = 256;
// About one full wave on the largest GPUs.
inline constexpr std::size_t kMaxBlocks = std::min<std::size_t>(1024, kMaxGridBlocks);
inline constexpr int kAccessBytes = 16;

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

template <class T>
using Compute = std::conditional_t<kIsHalf<T>, float, T>;

// Like dispatch(), but with CUDA's own 16-bit types.
template <class F>
void dispatch_device(DType dtype, F&& f) {
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, Float16>) {
      f(__half{});
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      f(__nv_bfloat16{});
    } else {
      f(zero);
    }
  });
}

__device__ inline float widen(__half value) { return __half2float(value); }
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class To>
__device__ To narrow(float value) {
  if constexpr (std::is_same_v<To, __half>) {
    return __float2half_rn(value);
  } else {
    return __float2bfloat16_rn(value);
  }
}

// These are constants because device code may not call the functions of numeric_limits.
template <class Integer>
inline constexpr Integer kMax = std::numeric_limits<Integer>::max();
template <class Integer>
inline constexpr Integer kMin = std::numeric_limits<Integer>::min();

// Converts floating point to integer: rounds towards zero, saturates, and turns NaN into 0.
template <class Integer, class Real>
__device__ Integer saturate(Real value) {
  constexpr Real kEnd = static_cast<Real>(kMax<Integer> / 2 + 1) * 2;  // max + 1, exact in any Real
  if (value >= kEnd) return kMax<Integer>;
  if (value <= static_cast<Real>(kMin<Integer>)) return kMin<Integer>;
  return value != value ? Integer{0} : static_cast<Integer>(value);
}

template <class To, class From>
__device__ To convert(From value) {
  if constexpr (kIsHalf<From>) {
    return convert<To>(widen(value));
  } else if constexpr (kIsHalf<To>) {
    return narrow<To>(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T lane[N];
};

template <int N, class T>
__device__ Pack<T, N>& pack_at(T* elements, std::size_t i) {
  return *reinterpret_cast<Pack<T, N>*>(elements + i);
}

template <int N, class T>
__device__ const Pack<T, N>& pack_at(const T* elements, std::size_t i) {
  return *reinterpret_cast<const Pack<T, N>*>(elements + i);
}

__device__ inline std::size_t thread_index() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ inline std::size_t thread_count() {
  return static_cast<std::size_t>(gridDim.x) * blockDim.x;
}

// What a thread runs. An operation with an operand in memory that it reads as a constant does so in
// loaded(), once: in the loop, it would be read again after every store, which might change it.
template <class Operation>
__device__ auto loaded(const Operation& operation) {
  if constexpr (requires { operation.loaded(); }) {
    return operation.loaded();
  } else {
    return operation;
  }
}

template <int N, class Operation>
__global__ void for_each_pack(Operation given, std::size_t count) {
  const auto operation = loaded(given);
  const std::size_t packs = count / N;
  for (std::size_t i = thread_index(); i < packs; i += thread_count()) {
    operation.template at<N>(i * N);
  }
  for (std::size_t i = packs * N + thread_index(); i < count; i += thread_count()) {
    operation.template at<1>(i);
  }
}

inline unsigned blocks_for(std::size_t threads) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>((threads + kBlockSize - 1) / kBlockSize, 1, kMaxBlocks));
}

inline bool is_aligned(const void* pointer, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

// `aligned` says that every operand of the operation may be accessed N elements at a time.
template <int N, class Operation>
void launch(const Operation& operation, std::size_t count, bool aligned, Stream stream) {
  if (count == 0) return;
  if (aligned) {
    launch_kernel(for_each_pack<N, Operation>, blocks_for(count / N), kBlockSize, stream, operation,
                  count);
  } else {
    launch_kernel(for_each_pack<1, Operation>, blocks_for(count), kBlockSize, stream, operation,
                  count);
  }
}

}  // namespace ddp::cu::elementwise
