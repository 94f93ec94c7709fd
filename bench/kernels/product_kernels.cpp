// SPDX-License-Identifier: MIT
//
// Matrix products of linear layers and of attention, and resnet18's convolutions of 224 x 224
// images.
#include <fmt/core.h>

#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/gemm.h"
#include "kernels/work.h"

namespace ddp::bench {
namespace {

using nn::Tensor;

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

Work gemm_work(Workbench& bench, const std::string& name, DType dtype, const GemmShape& shape,
               const GemmOptions& options) {
  const Tensor a = bench.random(shape.m * shape.k, dtype),
               b = bench.random(shape.k * shape.n, dtype);
  const Tensor c = bench.random(shape.m * shape.n, dtype);
  const auto run = [=, &bench] {
    bench.context.gemm(a.buffer(), b.buffer(), c.buffer(), shape, options);
  };
  return {.kernel = fmt::format("{} {} x {} x {}", name, shape.m, shape.n, shape.k),
          .dtype = dtype,
          .traffic = {a, b, c},
          .flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k),
          .run = run};
}

// The products of nn::Linear: y = x W', grad_x = grad_y W, grad_W = grad_y' x.
struct Product {
  const char* name;
  GemmShape shape;
  GemmOptions options;
};

std::vector<Product> products_of_linear(std::size_t batch, std::size_t in, std::size_t out) {
  return {{"gemm, forward", {batch, out, in}, {.transpose_b = Transpose::kYes}},
          {"gemm, grad_input", {batch, in, out}, {}},
          {"gemm, grad_weight", {out, in, batch}, {.transpose_a = Transpose::kYes}}};
}

// The products of attention: scores = q k', y = weights v, for 4 samples of 1024 tokens, 16 heads.
Work attention_work(Workbench& bench, const char* name, DType dtype, const GemmShape& shape,
                    Transpose transpose_b) {
  constexpr std::size_t kProducts = 4 * 16;
  const auto [m, n, k] = shape;
  const Tensor a = bench.random(kProducts * m * k, dtype),
               b = bench.random(kProducts * k * n, dtype);
  const Tensor c = bench.random(kProducts * m * n, dtype);
  const auto run = [=, &bench] {
    bench.context.gemm_batched(a.buffer(), b.buffer(), c.buffer(), shape,
                               {.transpose_b = transpose_b});
  };
  return {.kernel = fmt::format("{} {} times {} x {} x {}", name, kProducts, m, n, k),
          .dtype = dtype,
          .traffic = {a, b, c},
          .flops = 2.0 * static_cast<double>(kProducts * m * n * k),
          .run = run};
}

// A convolution layer of resnet18; the input is square.
struct Layer {
  std::size_t in_channels, out_channels, side, kernel, stride;

  [[nodiscard]] Conv2dShape shape(const Workbench& bench) const {
    return {.batch = bench.images(),
            .in_channels = in_channels,
            .out_channels = out_channels,
            .input = {side, side},
            .kernel = {kernel, kernel},
            .stride = {stride, stride},
            .padding = {kernel / 2, kernel / 2}};
  }
};

constexpr Layer kLayers[] = {
    {3, 64, 224, 7, 2}, {64, 64, 56, 3, 1}, {128, 128, 28, 3, 1}, {512, 512, 7, 3, 1}};

enum class Pass { kForward, kGradInput, kGradWeight };

std::string name_of(Pass pass, const Layer& layer) {
  constexpr const char* kNames[] = {"conv2d_forward", "conv2d_grad_input", "conv2d_grad_weight"};
  return fmt::format("{} {}->{}, {} x {}, kernel {}, stride {}", kNames[static_cast<int>(pass)],
                     layer.in_channels, layer.out_channels, layer.side, layer.side, layer.kernel,
                     layer.stride);
}

Work conv2d_work(Workbench& bench, Pass pass, const Layer& layer, DType dtype) {
  const Conv2dShape shape = layer.shape(bench);
  const Tensor x = bench.random(shape.x_count(), dtype), y = bench.random(shape.y_count(), dtype);
  const Tensor weight = bench.random(shape.weight_count(), dtype);
  const auto run = [=, &bench] {
    nn::Context& context = bench.context;
    const Buffer no_bias = y.buffer().slice(0, 0);
    if (pass == Pass::kForward) {
      context.run_conv2d(cpu::conv2d_forward, cu::conv2d_forward, x.buffer(), weight.buffer(),
                         no_bias, y.buffer(), shape);
    } else if (pass == Pass::kGradInput) {
      context.run_conv2d(cpu::conv2d_grad_input, cu::conv2d_grad_input, weight.buffer(), y.buffer(),
                         GradientTarget{x.buffer()}, shape);
    } else {
      context.run_conv2d(cpu::conv2d_grad_weight, cu::conv2d_grad_weight, x.buffer(), y.buffer(),
                         GradientTarget{weight.buffer()}, shape);
    }
  };
  const std::size_t products = shape.y_count() * shape.in_channels * shape.kernel.count();
  return {.kernel = name_of(pass, layer),
          .dtype = dtype,
          .traffic = {x, weight, y},
          .flops = 2.0 * static_cast<double>(products),
          .run = run};
}

void add_linear(std::vector<MakeWork>& all, DType dtype) {
  for (const Product& product : products_of_linear(4096, 1024, 4096)) {
    all.push_back([=](Workbench& bench) {
      return gemm_work(bench, product.name, dtype, product.shape, product.options);
    });
  }
}

void add_attention(std::vector<MakeWork>& all, DType dtype) {
  all.push_back([=](Workbench& bench) {
    return attention_work(bench, "gemm_batched, scores", dtype, {1024, 1024, 64}, Transpose::kYes);
  });
  all.push_back([=](Workbench& bench) {
    return attention_work(bench, "gemm_batched, values", dtype, {1024, 64, 1024}, Transpose::kNo);
  });
}

void add_layer(std::vector<MakeWork>& all, const Layer& layer, DType dtype) {
  for (const Pass pass : {Pass::kForward, Pass::kGradInput, Pass::kGradWeight}) {
    // Training never computes the gradient of the images.
    if (pass == Pass::kGradInput && layer.in_channels == 3) continue;
    all.push_back([=](Workbench& bench) { return conv2d_work(bench, pass, layer, dtype); });
  }
}

}  // namespace

std::vector<MakeWork> product_kernels() {
  std::vector<MakeWork> all;
  for (const DType dtype : kDTypes) {
    add_linear(all, dtype);
    add_attention(all, dtype);
    for (const Layer& layer : kLayers) add_layer(all, layer, dtype);
  }
  return all;
}

Work large_product(Workbench& bench, DType dtype) {
  const std::size_t size = bench.context.device().is_cuda() ? 8192 : 512;
  return gemm_work(bench, "gemm", dtype, {size, size, size}, {});
}

}  // namespace ddp::bench
