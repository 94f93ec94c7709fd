// SPDX-License-Identifier: MIT
//
// Replaces libddp/ddp/cuda/launch.cuh: defines in C++ those parts of CUDA's language that the .cu
// files use. It lacks the parts that no kernel has used so far.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_emulation/block.h"
#include "cuda_emulation/memory.h"
#include "cuda_emulation/stream.h"
#include "ddp/base/stream.h"
#include "ddp/cuda/check.h"

// Shared memory of the block that runs on this host thread. As on a GPU, it is not reset between
// blocks.
#undef __shared__
#define __launch_bounds__(...)
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

// As on a GPU, the last `distance` lanes get their own value back.
template <class T>
T __shfl_down_sync(unsigned lanes, T value, unsigned distance) {
  const unsigned lane = ddp::emulation::lane(), from = lane + distance;
  return value_of_lane(lanes, value, from < ddp::emulation::kWarp ? from : lane);
}

// Each exchange doubles the lanes whose bits a lane knows.
inline unsigned __ballot_sync(unsigned lanes, int predicate) {
  unsigned votes = (predicate != 0 ? 1U : 0U) << ddp::emulation::lane();
  for (unsigned mask = 1; mask < ddp::emulation::kWarp; mask *= 2) {
    votes |= __shfl_xor_sync(lanes, votes, mask);
  }
  return votes;
}

inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __popc(unsigned bits) { return std::popcount(bits); }

template <class T>
T atomicAdd(T* target, T value) {
  return std::atomic_ref<T>(*target).fetch_add(value);
}

namespace ddp::emulation {

// False for an address of the process that CUDA has not allocated, which a kernel must not use. The
// comparisons leave out numbers that are no address at all.
inline bool may_be_used(std::uintptr_t address) {
  constexpr std::uintptr_t kLowest = std::uintptr_t{1} << 40, kEnd = std::uintptr_t{1} << 47;
  return address < kLowest || address >= kEnd ||
         classify(reinterpret_cast<const void*>(address), 1) == Range::kInside;
}

// Looks at an argument that is a pointer, or a struct of pointers and other words without padding.
template <class Argument>
bool is_usable_argument(const Argument& argument) {
  constexpr std::size_t kWord = sizeof(std::uintptr_t);
  constexpr bool kHasWords = sizeof(Argument) % kWord == 0 && alignof(Argument) == kWord;
  if constexpr (kHasWords && std::has_unique_object_representations_v<Argument>) {
    std::uintptr_t words[sizeof(Argument) / kWord];
    std::memcpy(words, &argument, sizeof words);
    return std::all_of(std::begin(words), std::end(words), may_be_used);
  }
  return true;
}

}  // namespace ddp::emulation

namespace ddp::cu {

inline constexpr std::size_t kMaxGridBlocks = 64;

template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, Stream stream,
                   Arguments&&... arguments) {
  const std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  const bool is_usable = std::apply(
      [](const auto&... each) { return (emulation::is_usable_argument(each) && ...); }, values);
  if (!is_usable) DDP_CUDA_CHECK(cudaErrorIllegalAddress);
  DDP_CUDA_CHECK(
      emulation::launch(blocks, threads, stream.native, [=] { std::apply(kernel, values); }));
}

}  // namespace ddp::cu
