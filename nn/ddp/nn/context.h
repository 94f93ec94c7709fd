// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "ddp/base/stream.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/gemm.h"
#include "ddp/nn/memory_pool.h"
#include "ddp/nn/tensor.h"
#include "ddp/nn/wide_operands.h"

namespace ddp::nn {

// Where computation happens: a device, the stream that all work is enqueued on, its BLAS handle,
// and the memory of temporaries. Only functions that say so wait for the stream. For one thread at
// a time; ranks that are threads have a Context each.
class Context {
 public:
  // On CUDA, the context makes its own stream, or uses the caller's, which must outlive it. Its own
  // stream is in order with the default stream, so what is called without a stream does not race.
  // There, `precision` says how float32 is multiplied; it means nothing on the CPU.
  explicit Context(Device device = kCpuDevice,
                   Float32Precision precision = Float32Precision::kIeee);
  Context(Device device, Stream stream, Float32Precision precision = Float32Precision::kIeee);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] Stream stream() const { return stream_; }
  [[nodiscard]] const MemoryPool& pool() const { return pool_; }

  // Returns a tensor of undefined content from the pool, for temporaries of a step.
  [[nodiscard]] Tensor empty(const Shape& shape, DType dtype);

  // Calls the kernel for this device: run(cpu::unary_forward, cu::unary_forward, x, y, f). 16-bit
  // operands are computed in float32 and rounded, by WideOperands.
  template <class Cpu, class Cuda, class... Arguments>
  void run(Cpu cpu_kernel, Cuda cuda_kernel, const Arguments&... arguments) {
    with_wide_operands(
        [&](const auto&... operands) {
          if (device_.is_cuda()) {
            cuda_kernel(operands..., stream_);
          } else {
            cpu_kernel(operands...);
          }
        },
        arguments...);
  }
  // The same for kernels whose CUDA version takes 16-bit types itself.
  template <class Cpu, class Cuda, class... Arguments>
  void run_any_float(Cpu cpu_kernel, Cuda cuda_kernel, const Arguments&... arguments) {
    if (device_.is_cuda()) return cuda_kernel(arguments..., stream_);
    run(cpu_kernel, cuda_kernel, arguments...);
  }
  // The same for kernels that also take a Conv2dBackend, which on CUDA may itself take 16-bit
  // types.
  template <class Cpu, class Cuda, class... Arguments>
  void run_conv2d(Cpu cpu_kernel, Cuda cuda_kernel, const Arguments&... arguments) {
    const auto call = [&](const auto&... operands) {
      if (device_.is_cuda()) {
        cuda_kernel(operands..., cuda_conv2d(), stream_);
      } else {
        cpu_kernel(operands..., cpu_conv2d());
      }
    };
    const auto all = std::tie(arguments...);  // the first one is an operand, the last one the shape
    const DType dtype = std::get<0>(all).dtype;
    const Conv2dShape& shape = std::get<sizeof...(Arguments) - 1>(all);
    if (device_.is_cuda() && cuda_conv2d().takes(dtype, shape)) return call(arguments...);
    with_wide_operands(call, arguments...);
  }
  // On CUDA, 16-bit operands are multiplied in their type and summed in float32.
  void gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
            const GemmOptions& options);
  void gemm_batched(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
                    const GemmOptions& options);

  // Copies between this device and the host; both wait until the copy is done.
  template <class T>
  [[nodiscard]] Tensor from_host(std::span<const T> elements, const Shape& shape) {
    Tensor tensor = Tensor::zeros(shape, dtype_of<T>, device_);
    copy_from_host(elements.data(), elements.size_bytes(), tensor.buffer());
    return tensor;
  }
  // For containers: std::vector<float> v; context.from_host(v, {n, 8}).
  template <class Container>
  requires requires(const Container& c) { std::span(c); }
  [[nodiscard]] Tensor from_host(const Container& elements, const Shape& shape) {
    const std::span view(elements);
    return from_host<typename decltype(view)::value_type>(view, shape);
  }
  template <class T>
  [[nodiscard]] std::vector<T> to_host(const Tensor& tensor) const {
    std::vector<T> elements(tensor.count());
    copy_to_host(tensor.buffer(), dtype_of<T>, elements.data());
    return elements;
  }

  // Waits until all work on the stream has run.
  void synchronize() const;

 private:
  template <class Call, class... Arguments>
  void with_wide_operands(const Call& call, const Arguments&... arguments) {
    if (!(WideOperands::is_narrow(arguments) || ...)) return call(arguments...);
    WideOperands wide(*this);
    call(wide(arguments)...);
    wide.round_back();
  }
  cpu::Conv2dBackend& cpu_conv2d();
  cu::Conv2dBackend& cuda_conv2d();
  void copy_from_host(const void* source, std::size_t size_bytes, const Buffer& target) const;
  void copy_to_host(const Buffer& source, DType dtype, void* target) const;

  Device device_;
  Float32Precision precision_;
  std::optional<cu::OwnedStream> owned_stream_;
  Stream stream_;
  std::optional<cu::Blas> blas_;
  // The first convolution makes the one for its device.
  std::unique_ptr<cpu::Conv2dBackend> cpu_conv2d_;
  std::unique_ptr<cu::Conv2dBackend> cuda_conv2d_;
  MemoryPool pool_;
};

}  // namespace ddp::nn
