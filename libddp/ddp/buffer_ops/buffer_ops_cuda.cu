// SPDX-License-Identifier: MIT
//
// Arithmetic is written as in buffer_ops_cpu.cpp, so that both give the same bits (except for the
// payload of a NaN).
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/buffer_ops/checks.h"
#include "ddp/buffer_ops/elementwise.cuh"
#include "ddp/cuda/cuda.h"

namespace ddp::cu {
namespace {

using namespace elementwise;  // NOLINT: this file is its only user

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
  double factor;

  template <class T>
  __device__ T operator()(T value) const {
    return value * convert<T>(factor);
  }
};

template <class T>
struct ScaleByValueAt {
  T* target;
  const double* factor;

  __device__ Transform<T, MultiplyBy> loaded() const { return {target, {*factor}}; }
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

// Integers wrap around. Overflow of signed integers is undefined in C++, so they are computed as
// unsigned ones.
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

// If either operand is NaN, the result is NaN.
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

// Each thread that finds infinity or NaN writes 0. The race is harmless, since all write the same
// value.
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

// The result may be in pinned host memory, where cudaMemset does not work.
template <class T>
__global__ void store_value(T* target, T value) {
  *target = value;
}

// mix_bits() of ddp/base/random.h, which the fingerprints on the CPU use.
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

// The fingerprint is the sum of the words' hashes, so their order does not matter: each warp adds
// up its own hashes by shuffles, then adds once to the result.
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

// `operation_on` makes the operation from a pointer to the elements.
template <class F>
void transform(std::string_view name, const Buffer& target, F operation_on, Stream stream) {
  buffer_ops::check_device(name, target, DeviceType::kCuda);
  buffer_ops::check_floating_point(name, target);
  const DeviceGuard guard(target.device);
  dispatch_device(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T>) {
      launch<kAccessBytes / sizeof(T)>(operation_on(static_cast<T*>(target.data)), target.count,
                                       is_aligned(target.data, kAccessBytes), stream);
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

void scale(const Buffer& target, double factor, Stream stream) {
  const auto operation = [=](auto* elements) { return Transform{elements, MultiplyBy{factor}}; };
  transform("scale", target, operation, stream);
}

void scale_by_value_at(const Buffer& target, const double* factor, Stream stream) {
  const auto operation = [=](auto* elements) { return ScaleByValueAt{elements, factor}; };
  transform("scale_by_value_at", target, operation, stream);
}

void reciprocal(const Buffer& target, Stream stream) {
  const auto operation = [](auto* elements) { return Transform{elements, Invert{}}; };
  transform("reciprocal", target, operation, stream);
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
  launch_kernel(store_value<std::uint8_t>, 1, 1, stream, result, 1);
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
  auto* sum = reinterpret_cast<unsigned long long*>(result);
  launch_kernel(store_value<unsigned long long>, 1, 1, stream, sum, 0);
  if (source.count == 0) return;
  launch_kernel(add_fingerprint, blocks_for((source.size_bytes() + 7) / 8), kBlockSize, stream,
                static_cast<const std::uint8_t*>(source.data), source.size_bytes(),
                is_aligned(source.data, 8), sum);
}

}  // namespace ddp::cu
