// SPDX-License-Identifier: MIT
//
// One grid-stride kernel runs every element-wise operation. An operation is a struct whose at<N>()
// treats N neighbouring elements: N fills a 16-byte access where all operands are aligned to it,
// and is 1 for the tail and for unaligned slices. Arithmetic is written as in buffer_ops_cpu.cpp,
// so that both give the same bits (but for the payload of a NaN).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/buffer_ops/checks.h"
#include "ddp/cuda/check.h"
#include "ddp/cuda/cuda.h"

namespace ddp::cu {
namespace {

constexpr unsigned kBlockSize = 256;
constexpr std::size_t kMaxBlocks = 1024;  // about one full wave on the largest GPUs
constexpr int kAccessBytes = 16;

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

template <class T>
using Compute = std::conditional_t<kIsHalf<T>, float, T>;

// dispatch() with the device's 16-bit types.
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

__device__ float widen(__half value) { return __half2float(value); }
__device__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class To>
__device__ To narrow(float value) {
  if constexpr (std::is_same_v<To, __half>) {
    return __float2half_rn(value);
  } else {
    return __float2bfloat16_rn(value);
  }
}

// Constants, since device code may not call numeric_limits.
template <class Integer>
inline constexpr Integer kMax = std::numeric_limits<Integer>::max();
template <class Integer>
inline constexpr Integer kMin = std::numeric_limits<Integer>::min();

// Floating point to integer: towards zero, saturating, NaN to 0.
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

__device__ std::size_t thread_index() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ std::size_t thread_count() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

template <int N, class Operation>
__global__ void for_each_pack(Operation operation, std::size_t count) {
  const std::size_t packs = count / N;
  for (std::size_t i = thread_index(); i < packs; i += thread_count()) {
    operation.template at<N>(i * N);
  }
  for (std::size_t i = packs * N + thread_index(); i < count; i += thread_count()) {
    operation.template at<1>(i);
  }
}

unsigned blocks_for(std::size_t threads) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>((threads + kBlockSize - 1) / kBlockSize, 1, kMaxBlocks));
}

bool is_aligned(const void* pointer, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

// `aligned`: every operand of the operation may be accessed N elements at a time.
template <int N, class Operation>
void launch(const Operation& operation, std::size_t count, bool aligned, Stream stream) {
  if (count == 0) return;
  const auto native = static_cast<cudaStream_t>(stream.native);
  if (aligned) {
    for_each_pack<N><<<blocks_for(count / N), kBlockSize, 0, native>>>(operation, count);
  } else {
    for_each_pack<1><<<blocks_for(count), kBlockSize, 0, native>>>(operation, count);
  }
  DDP_CUDA_CHECK(cudaGetLastError());
}

template <class T>
struct Fill {
  T* target;
  double value;

  template <int N>
  __device__ void at(std::size_t i) const {
    const T element = convert<T>(value);
    Pack<T, N> pack;
#pragma unroll
    for (T& lane : pack.lane) lane = element;
    pack_at<N>(target, i) = pack;
  }
};

template <class T, class F>
struct Transform {
  T* target;
  F f;

  template <int N>
  __device__ void at(std::size_t i) const {
    Pack<T, N> pack = pack_at<N>(target, i);
#pragma unroll
    for (T& lane : pack.lane) lane = convert<T>(f(convert<Compute<T>>(lane)));
    pack_at<N>(target, i) = pack;
  }
};

struct MultiplyBy {
  const double* factor;

  template <class T>
  __device__ T operator()(T value) const {
    return value * convert<T>(*factor);
  }
};

struct Invert {
  template <class T>
  __device__ T operator()(T value) const {
    return value == 0 ? value : 1 / value;
  }
};

template <class From, class To>
struct Cast {
  const From* source;
  To* target;

  template <int N>
  __device__ void at(std::size_t i) const {
    const Pack<From, N> in = pack_at<N>(source, i);
    Pack<To, N> out;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) out.lane[lane] = convert<To>(in.lane[lane]);
    pack_at<N>(target, i) = out;
  }
};

template <class T, class Combine>
struct Reduce {
  const T* source;
  T* target;
  Combine combine;

  template <int N>
  __device__ void at(std::size_t i) const {
    const Pack<T, N> in = pack_at<N>(source, i);
    Pack<T, N> out = pack_at<N>(target, i);
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
      out.lane[lane] = convert<T>(
          combine(convert<Compute<T>>(out.lane[lane]), convert<Compute<T>>(in.lane[lane])));
    }
    pack_at<N>(target, i) = out;
  }
};

// Integers wrap around: signed overflow is undefined, so they are computed unsigned.
template <class T>
__device__ auto to_wrapping(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else {
    return value;
  }
}

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return static_cast<T>(to_wrapping(a) + to_wrapping(b));
  }
};

struct Multiply {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return static_cast<T>(to_wrapping(a) * to_wrapping(b));
  }
};

// A NaN on either side wins.
struct Min {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return (a < b || a != a) ? a : b;
  }
};

struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return (a > b || a != a) ? a : b;
  }
};

template <class F>
void with_operation(ReduceOp op, F&& f) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return f(Add{});
    case ReduceOp::kProduct:
      return f(Multiply{});
    case ReduceOp::kMin:
      return f(Min{});
    case ReduceOp::kMax:
      return f(Max{});
  }
}

// Whoever finds infinity or NaN writes 0: a race of equal values.
template <class T>
struct FindSpecial {
  const T* source;
  std::uint8_t* result;

  template <int N>
  __device__ void at(std::size_t i) const {
    const Pack<T, N> pack = pack_at<N>(source, i);
    bool found = false;
#pragma unroll
    for (const T& lane : pack.lane) found |= !isfinite(convert<Compute<T>>(lane));
    if (found) *result = 0;
  }
};

// A result may be pinned host memory, where cudaMemset would not do.
template <class T>
__global__ void store_value(T* target, T value) {
  *target = value;
}

__device__ std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

__device__ std::uint64_t load_word(const std::uint8_t* bytes, std::size_t n) {
  std::uint64_t word = 0;
  for (std::size_t k = 0; k < n; ++k) word |= static_cast<std::uint64_t>(bytes[k]) << (8 * k);
  return word;
}

// The words' hashes are added, so their order does not matter: a warp adds its own by shuffles and
// then once to the result.
__global__ void add_fingerprint(const std::uint8_t* bytes, std::size_t size_bytes, bool aligned,
                                unsigned long long* result) {
  const std::size_t words = (size_bytes + 7) / 8;
  unsigned long long sum = 0;
  for (std::size_t i = thread_index(); i < words; i += thread_count()) {
    const std::size_t left = size_bytes - i * 8;
    const std::uint64_t word = aligned && left >= 8
                                   ? reinterpret_cast<const std::uint64_t*>(bytes)[i]
                                   : load_word(bytes + i * 8, left < 8 ? left : 8);
    sum += mix(word + (i + 1) * 0x9e3779b97f4a7c15ULL);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffffU, sum, distance);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(result, sum);
}

template <class F>
void transform(std::string_view name, const Buffer& target, F f, Stream stream) {
  buffer_ops::check_device(name, target, DeviceType::kCuda);
  buffer_ops::check_floating_point(name, target);
  const DeviceGuard guard(target.device);
  dispatch_device(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T>) {
      launch<kAccessBytes / sizeof(T)>(Transform<T, F>{static_cast<T*>(target.data), f},
                                       target.count, is_aligned(target.data, kAccessBytes), stream);
    }
  });
}

}  // namespace

void fill(const Buffer& target, double value, Stream stream) {
  buffer_ops::check_device("fill", target, DeviceType::kCuda);
  const DeviceGuard guard(target.device);
  dispatch_device(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch<kAccessBytes / sizeof(T)>(Fill<T>{static_cast<T*>(target.data), value}, target.count,
                                     is_aligned(target.data, kAccessBytes), stream);
  });
}

void copy(const Buffer& source, const Buffer& target, Stream stream) {
  buffer_ops::check_same("copy", source, target, DeviceType::kCuda);
  const DeviceGuard guard(target.device);
  copy_async(target.data, source.data, source.size_bytes(), stream);
}

void cast(const Buffer& source, const Buffer& target, Stream stream) {
  buffer_ops::check_same_count("cast", source, target, DeviceType::kCuda);
  const DeviceGuard guard(target.device);
  dispatch_device(source.dtype, [&](auto from) {
    dispatch_device(target.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      constexpr int kLanes = kAccessBytes / static_cast<int>(std::max(sizeof(From), sizeof(To)));
      const bool aligned = is_aligned(source.data, sizeof(From) * kLanes) &&
                           is_aligned(target.data, sizeof(To) * kLanes);
      launch<kLanes>(
          Cast<From, To>{static_cast<const From*>(source.data), static_cast<To*>(target.data)},
          target.count, aligned, stream);
    });
  });
}

void scale(const Buffer& target, const double* factor, Stream stream) {
  transform("scale", target, MultiplyBy{factor}, stream);
}

void reciprocal(const Buffer& target, Stream stream) {
  transform("reciprocal", target, Invert{}, stream);
}

void reduce(const Buffer& source, const Buffer& target, ReduceOp op, Stream stream) {
  buffer_ops::check_same("reduce", source, target, DeviceType::kCuda);
  const DeviceGuard guard(target.device);
  const bool aligned =
      is_aligned(source.data, kAccessBytes) && is_aligned(target.data, kAccessBytes);
  dispatch_device(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_operation(op, [&](auto combine) {
      launch<kAccessBytes / sizeof(T)>(
          Reduce<T, decltype(combine)>{static_cast<const T*>(source.data),
                                       static_cast<T*>(target.data), combine},
          target.count, aligned, stream);
    });
  });
}

void is_finite(const Buffer& source, std::uint8_t* result, Stream stream) {
  buffer_ops::check_device("is_finite", source, DeviceType::kCuda);
  const DeviceGuard guard(source.device);
  store_value<std::uint8_t><<<1, 1, 0, static_cast<cudaStream_t>(stream.native)>>>(result, 1);
  DDP_CUDA_CHECK(cudaGetLastError());
  dispatch_device(source.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T>) {
      launch<kAccessBytes / sizeof(T)>(FindSpecial<T>{static_cast<const T*>(source.data), result},
                                       source.count, is_aligned(source.data, kAccessBytes), stream);
    }
  });
}

void fingerprint(const Buffer& source, std::uint64_t* result, Stream stream) {
  buffer_ops::check_device("fingerprint", source, DeviceType::kCuda);
  const DeviceGuard guard(source.device);
  const auto native = static_cast<cudaStream_t>(stream.native);
  auto* sum = reinterpret_cast<unsigned long long*>(result);
  store_value<unsigned long long><<<1, 1, 0, native>>>(sum, 0);
  DDP_CUDA_CHECK(cudaGetLastError());
  if (source.count == 0) return;
  add_fingerprint<<<blocks_for((source.size_bytes() + 7) / 8), kBlockSize, 0, native>>>(
      static_cast<const std::uint8_t*>(source.data), source.size_bytes(),
      is_aligned(source.data, 8), sum);
  DDP_CUDA_CHECK(cudaGetLastError());
}

}  // namespace ddp::cu
