// SPDX-License-Identifier: MIT
#include "ddp/nn/context.h"

#include <stdexcept>
#include <string>

#include "ddp/buffer_ops/host_transfer.h"

namespace ddp::nn {

Context::Context(Device device, Float32Precision precision)
    : device_(device), precision_(precision), pool_(device) {
  if (!device.is_cuda()) return;
  owned_stream_.emplace(device, cu::StreamPriority::kDefault, cu::StreamOrder::kWithDefaultStream);
  stream_ = owned_stream_->view();
  blas_.emplace(device, precision);
}

Context::Context(Device device, Stream stream, Float32Precision precision)
    : device_(device), precision_(precision), stream_(stream), pool_(device) {
  if (device.is_cuda()) blas_.emplace(device, precision);
}

Tensor Context::empty(const Shape& shape, DType dtype) {
  Buffer buffer{nullptr, shape.count(), dtype, device_};
  std::shared_ptr<void> storage = pool_.allocate(buffer.size_bytes());
  buffer.data = storage.get();
  return {buffer, shape, std::move(storage)};
}

void Context::gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
                   const GemmOptions& options) {
  if (device_.is_cuda()) return cu::gemm(a, b, c, shape, options, *blas_, stream_);
  with_wide_operands(cpu::gemm, a, b, c, shape, options);
}

void Context::gemm_batched(const Buffer& a, const Buffer& b, const Buffer& c,
                           const GemmShape& shape, const GemmOptions& options) {
  if (device_.is_cuda()) return cu::gemm_batched(a, b, c, shape, options, *blas_, stream_);
  with_wide_operands(cpu::gemm_batched, a, b, c, shape, options);
}

cpu::Conv2dBackend& Context::cpu_conv2d() {
  if (!cpu_conv2d_) cpu_conv2d_ = cpu::make_conv2d();
  return *cpu_conv2d_;
}

cu::Conv2dBackend& Context::cuda_conv2d() {
  if (!cuda_conv2d_) cuda_conv2d_ = cu::make_cudnn_conv2d(device_, precision_);
  if (!cuda_conv2d_) cuda_conv2d_ = cu::make_gemm_conv2d(device_, *blas_);
  return *cuda_conv2d_;
}

void Context::synchronize() const {
  const cu::DeviceGuard guard(device_);
  if (device_.is_cuda()) cu::synchronize(stream_);
}

void Context::copy_from_host(const void* source, std::size_t size_bytes,
                             const Buffer& target) const {
  if (size_bytes != target.size_bytes()) {
    throw std::invalid_argument("[nn] from_host: " + std::to_string(size_bytes) + " bytes for " +
                                to_string(target));
  }
  copy_and_wait({const_cast<void*>(source), target.count, target.dtype, kCpuDevice}, target,
                stream_);
}

void Context::copy_to_host(const Buffer& source, DType dtype, void* target) const {
  if (source.dtype != dtype) {
    throw std::invalid_argument("[nn] to_host: " + to_string(source) + " read as " +
                                std::string(to_string(dtype)));
  }
  copy_and_wait(source, {target, source.count, dtype, kCpuDevice}, stream_);
}

}  // namespace ddp::nn
