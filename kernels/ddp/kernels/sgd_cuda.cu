// SPDX-License-Identifier: MIT
#include "ddp/cuda/check.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/sgd_checks.h"
#include "ddp/kernels/sgd.h"

namespace ddp::cu {
namespace {

template <class T>
struct Operands {
  T* value;
  const T* grad;
  T* velocity;  // null without momentum
  std::size_t count;
};

template <class T>
__global__ void sgd_kernel(Operands<T> operands, T learning_rate, T momentum, T weight_decay,
                           const double* grad_scale) {
  const T scale = grad_scale == nullptr ? T{1} : static_cast<T>(*grad_scale);
  for (std::size_t i = launch::global_thread(); i < operands.count; i += launch::grid_threads()) {
    const T value = operands.value[i];
    T update = operands.grad[i] * scale + weight_decay * value;
    if (operands.velocity != nullptr) {
      update += momentum * operands.velocity[i];
      operands.velocity[i] = update;
    }
    operands.value[i] = value - learning_rate * update;
  }
}

}  // namespace

void sgd_step(const Buffer& value, const Buffer& grad, const Buffer& velocity, const SgdStep& step,
              const double* grad_scale, Stream stream) {
  detail::check_sgd_step(value, grad, velocity, step);
  if (value.count == 0) return;
  const DeviceGuard guard(value.device);
  detail::dispatch_float("sgd_step", value.dtype, [&](auto element) {
    using T = decltype(element);
    const Operands<T> operands{static_cast<T*>(value.data), static_cast<const T*>(grad.data),
                               velocity.count == 0 ? nullptr : static_cast<T*>(velocity.data),
                               value.count};
    sgd_kernel<<<launch::blocks_for(value.count, launch::kThreads), launch::kThreads, 0,
                 launch::native(stream)>>>(operands, static_cast<T>(step.learning_rate),
                                           static_cast<T>(step.momentum),
                                           static_cast<T>(step.weight_decay), grad_scale);
  });
  DDP_CUDA_CHECK(cudaGetLastError());
}

}  // namespace ddp::cu
