// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/adam.h"
#include "ddp/kernels/detail/adam_factors.h"
#include "ddp/kernels/detail/multi_tensor.cuh"

namespace ddp::cu {
namespace {

template <class T>
struct Operands {
  T* value;
  const T* grad;
  T* exp_avg;
  T* exp_avg_sq;
  std::size_t count;
  detail::AdamCorrections<T> corrections;
};

template <class T>
struct AdamUpdate {
  detail::AdamFactors<T> f;
  const double* grad_scale;

  __device__ void operator()(const Operands<T>& tensor, const launch::Chunk& chunk) const {
    const T scale = grad_scale == nullptr ? T{1} : static_cast<T>(*grad_scale);
    for (std::size_t i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
      const T value = tensor.value[i];
      const T g = tensor.grad[i] * scale + f.l2_decay * value;
      const T average = f.beta1 * tensor.exp_avg[i] + f.one_minus_beta1 * g;
      const T square = f.beta2 * tensor.exp_avg_sq[i] + f.one_minus_beta2 * g * g;
      const T root = sqrt(square) / tensor.corrections.root + f.eps;
      tensor.exp_avg[i] = average;
      tensor.exp_avg_sq[i] = square;
      tensor.value[i] = f.shrinkage * value - tensor.corrections.step_size * average / root;
    }
  }
};

}  // namespace

void adam_step(std::span<const AdamTensor> tensors, const AdamStep& step, const double* grad_scale,
               Stream stream) {
  if (tensors.empty()) return;
  detail::check_adam_step(tensors, step);
  const DeviceGuard guard(tensors.front().value.device);
  detail::dispatch_float("adam_step", tensors.front().value.dtype, [&](auto element) {
    using T = decltype(element);
    const auto describe = [&](std::size_t k) {
      const AdamTensor& tensor = tensors[k];
      return Operands<T>{static_cast<T*>(tensor.value.data),
                         static_cast<const T*>(tensor.grad.data),
                         static_cast<T*>(tensor.exp_avg.data),
                         static_cast<T*>(tensor.exp_avg_sq.data),
                         tensor.value.count,
                         detail::AdamCorrections<T>(step, tensor.step)};
    };
    const AdamUpdate<T> update{detail::AdamFactors<T>(step), grad_scale};
    launch::over_tensors(tensors.size(), describe, update, stream);
  });
}

}  // namespace ddp::cu
