// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/multi_tensor.cuh"
#include "ddp/kernels/detail/sgd_checks.h"
#include "ddp/kernels/sgd.h"

namespace ddp::cu {
namespace {

template <class T>
struct Operands {
  T* value;
  const T* grad;
  T* momentum_buffer;
  std::size_t count;
};

template <class T>
struct SgdUpdate {
  T learning_rate;
  T momentum;
  T weight_decay;
  bool nesterov;
  const double* grad_scale;

  __device__ void operator()(const Operands<T>& tensor, const launch::Chunk& chunk) const {
    const T scale = grad_scale == nullptr ? T{1} : static_cast<T>(*grad_scale);
    for (std::size_t i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
      const T value = tensor.value[i];
      const T g = tensor.grad[i] * scale + weight_decay * value;
      tensor.value[i] = value - learning_rate * (momentum == T{0} ? g : moved(tensor, i, g));
    }
  }

  __device__ T moved(const Operands<T>& tensor, std::size_t i, T g) const {
    const T velocity = momentum * tensor.momentum_buffer[i] + g;
    tensor.momentum_buffer[i] = velocity;
    return nesterov ? g + momentum * velocity : velocity;
  }
};

}  // namespace

void sgd_step(std::span<const SgdTensor> tensors, const SgdStep& step, const double* grad_scale,
              Stream stream) {
  if (tensors.empty()) return;
  detail::check_sgd_step(tensors, step);
  const DeviceGuard guard(tensors.front().value.device);
  detail::dispatch_float("sgd_step", tensors.front().value.dtype, [&](auto element) {
    using T = decltype(element);
    const auto describe = [&](std::size_t k) {
      const auto& [value, grad, momentum_buffer] = tensors[k];
      return Operands<T>{static_cast<T*>(value.data), static_cast<const T*>(grad.data),
                         static_cast<T*>(momentum_buffer.data), value.count};
    };
    const SgdUpdate<T> update{static_cast<T>(step.learning_rate), static_cast<T>(step.momentum),
                              static_cast<T>(step.weight_decay), step.nesterov, grad_scale};
    launch::over_tensors(tensors.size(), describe, update, stream);
  });
}

}  // namespace ddp::cu
