// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddp/nn/context.h"
#include "ddp/nn/tensor.h"
#include "support/random_tensor.h"

namespace ddp::bench {

// One kernel, with operands of its own.
struct Work {
  std::string kernel;
  DType dtype = DType::kFloat32;
  // The tensors that the kernel must read or write; those that it reads and writes are listed
  // twice.
  std::vector<nn::Tensor> traffic = {};
  double flops = 0;  // 0 unless the kernel is a product
  std::function<void()> run = {};

  [[nodiscard]] double bytes() const {
    double sum = 0;
    for (const nn::Tensor& each : traffic) sum += static_cast<double>(each.buffer().size_bytes());
    return sum;
  }
};

// Creates operands. The large ones are several times as large as a GPU's cache (50 MiB on an H100
// or H200) even in a 16-bit type, since part of an operand that is slightly larger could stay in
// the cache.
struct Workbench {
  Workbench(Device device, std::size_t large_elements)
      : context(device), elements(large_elements) {}

  nn::Context context;
  std::size_t elements;  // in a large operand; a multiple of 2^20

  // The shape of activation maps.
  static constexpr std::size_t kChannels = 64;
  static constexpr std::size_t kSide = 64;
  [[nodiscard]] std::size_t images() const { return elements / (kChannels * kSide * kSide); }

  [[nodiscard]] nn::Tensor random(std::size_t count, DType dtype = DType::kFloat32) {
    return random_tensor(context, {count}, dtype);
  }
  [[nodiscard]] nn::Tensor large(DType dtype = DType::kFloat32) { return random(elements, dtype); }
};

using MakeWork = std::function<Work(Workbench&)>;

[[nodiscard]] std::vector<MakeWork> buffer_kernels();
[[nodiscard]] std::vector<MakeWork> pointwise_kernels();
[[nodiscard]] std::vector<MakeWork> loss_kernels();
[[nodiscard]] std::vector<MakeWork> image_kernels();
[[nodiscard]] std::vector<MakeWork> transformer_kernels();
[[nodiscard]] std::vector<MakeWork> optimizer_kernels();
[[nodiscard]] std::vector<MakeWork> product_kernels();

// A square product for which cuBLAS is fastest; other products are compared with it.
[[nodiscard]] Work large_product(Workbench& bench, DType dtype);

}  // namespace ddp::bench
