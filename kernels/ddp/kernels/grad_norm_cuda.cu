// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/grad_norm_checks.h"
#include "ddp/kernels/detail/multi_tensor.cuh"
#include "ddp/kernels/grad_norm.h"

namespace ddp::cu {
namespace {

template <class T>
struct Operand {
  const T* grad;
  std::size_t count;
};

template <class T>
struct SumSquares {
  double* partials;  // one per chunk

  __device__ void operator()(const Operand<T>& tensor, const launch::Chunk& chunk) const {
    constexpr unsigned kLoads = detail::kChunkElements / launch::kThreads;  // on the way at a time
    T loaded[kLoads];
#pragma unroll
    for (unsigned k = 0; k < kLoads; ++k) {
      const std::size_t i = chunk.begin + k * launch::kThreads + threadIdx.x;
      loaded[k] = i < chunk.end ? tensor.grad[i] : T{0};
    }
    double sum = 0;
#pragma unroll
    for (const T value : loaded) sum += static_cast<double>(value) * static_cast<double>(value);
    sum = launch::block_sum(sum);
    if (threadIdx.x == 0) partials[chunk.index] = sum;
  }
};

struct Results {
  double* norm;
  double* scale;
};

// Runs as one block.
__global__ void finish_kernel(const double* partials, std::size_t count, double max_norm,
                              const double* grad_scale, Results results) {
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) sum += partials[i];
  sum = launch::block_sum(sum);
  if (threadIdx.x > 0) return;
  const double scale = grad_scale == nullptr ? 1 : *grad_scale;
  const double norm = abs(scale) * sqrt(sum);
  *results.norm = norm;
  const double factor = max_norm / (norm + detail::kNormEpsilon);
  *results.scale = factor > 1 ? scale : scale * factor;
}

}  // namespace

void clip_grad_norm(std::span<const Buffer> grads, double max_norm, const double* grad_scale,
                    const ClippedGradients& result, Stream stream) {
  detail::check_clip_grad_norm(grads, max_norm, result);
  const DeviceGuard guard(result.scale.device);
  auto* partials = static_cast<double*>(result.partials.data);
  if (!grads.empty()) {
    detail::dispatch_float("clip_grad_norm", grads.front().dtype, [&](auto element) {
      using T = decltype(element);
      const auto describe = [&](std::size_t k) {
        return Operand<T>{static_cast<const T*>(grads[k].data), grads[k].count};
      };
      launch::over_tensors(grads.size(), describe, SumSquares<T>{partials}, stream);
    });
  }
  launch::run(
      finish_kernel, 1, stream, partials, result.partials.count, max_norm, grad_scale,
      Results{static_cast<double*>(result.norm.data), static_cast<double*>(result.scale.data)});
}

}  // namespace ddp::cu
