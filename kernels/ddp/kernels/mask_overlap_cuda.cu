// SPDX-License-Identifier: MIT
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/mask_overlap_checks.h"
#include "ddp/kernels/mask_overlap.h"

namespace ddp::cu {
namespace {

// Each block first adds up its counts, so that it needs only two atomics.
template <class T>
__global__ void mask_overlap_kernel(const T* x, const T* mask, unsigned long long* counts,
                                    std::size_t count) {
  unsigned long long in_both = 0, in_either = 0;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const bool is_predicted = x[i] > T{0};
    const bool is_there = mask[i] >= static_cast<T>(0.5);
    in_both += is_predicted && is_there ? 1 : 0;
    in_either += is_predicted || is_there ? 1 : 0;
  }
  in_both = launch::block_sum(in_both);
  in_either = launch::block_sum(in_either);
  if (threadIdx.x != 0) return;
  atomicAdd(&counts[0], in_both);
  atomicAdd(&counts[1], in_either);
}

}  // namespace

void mask_overlap(const Buffer& logits, const Buffer& target, const Buffer& counts, Stream stream) {
  detail::check_mask_overlap(logits, target, counts);
  cu::fill(counts, 0, stream);
  if (logits.count == 0) return;
  const DeviceGuard guard(logits.device);
  detail::dispatch_float("mask_overlap", logits.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(mask_overlap_kernel<T>, launch::blocks_for(logits.count), stream,
                static_cast<const T*>(logits.data), static_cast<const T*>(target.data),
                static_cast<unsigned long long*>(counts.data), logits.count);
  });
}

}  // namespace ddp::cu
