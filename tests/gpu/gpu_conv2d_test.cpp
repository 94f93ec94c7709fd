// SPDX-License-Identifier: MIT
//
// Convolution with and without cuDNN, compared with the CPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/conv2d.h"
#include "gpu/emulated.h"
#include "gpu/twin.h"

namespace {

using ddp::Conv2dShape;
using ddp::Float32Precision;
using ddp::GemmShape;
using ddp::Transpose;
using ddp::WriteMode;
using ddp::cu::Conv2dBackend;
using ddp::test::kGpu;
using ddp::test::kTolerance;
using ddp::test::Twin;

std::vector<Conv2dShape> shapes() {
  Conv2dShape beyond_scratch_memory{70, 32, 8, {40, 40}, {3, 3}, {1, 1}, {1, 1}};
  if (ddp::test::is_emulated()) {  // just so
    beyond_scratch_memory.batch = 40;
    beyond_scratch_memory.out_channels = 3;
  }
  return {
      {1, 1, 1, {1, 1}, {1, 1}},
      {0, 2, 3, {5, 4}, {3, 3}},
      {9, 2, 7, {8, 9}, {3, 3}, {2, 2}, {1, 1}},
      {64, 1, 6, {28, 28}, {5, 5}, {1, 1}, {2, 2}},
      {64, 6, 16, {14, 14}, {5, 5}},
      {17, 7, 5, {6, 11}, {4, 3}, {3, 2}, {2, 0}},
      beyond_scratch_memory,
      {9, 4, 6, {7, 5}, {3, 3}, {1, 1}, {1, 1}, 2},
      {5, 8, 16, {9, 9}, {3, 3}, {2, 2}, {1, 1}, 8},
  };
}

// A convolution backend with its context; null if this machine has no cuDNN.
struct Backend {
  explicit Backend(bool is_cudnn, Float32Precision precision = Float32Precision::kIeee)
      : blas(kGpu, precision),
        conv2d(is_cudnn ? ddp::cu::make_cudnn_conv2d(kGpu, precision)
                        : ddp::cu::make_gemm_conv2d(kGpu, blas)) {
    if (!conv2d) WARN("SKIPPED: no cuDNN");
  }

  ddp::cu::Blas blas;
  std::unique_ptr<Conv2dBackend> conv2d;
};

}  // namespace

TEMPLATE_TEST_CASE("cu::conv2d_forward equals its CPU twin", "[gpu][conv2d]", float, double) {
  using T = TestType;
  Backend backend(GENERATE(false, true));
  if (!backend.conv2d) return;
  const Conv2dShape shape = GENERATE(from_range(shapes()));
  CAPTURE(shape.batch, shape.in_channels, shape.out_channels);
  auto x = Twin<T>::uniform(shape.x_count(), 1), weight = Twin<T>::uniform(shape.weight_count(), 2);
  auto bias = Twin<T>::uniform(GENERATE(true, false) ? shape.out_channels : 0, 3);
  auto y = Twin<T>::poison(shape.y_count());
  ddp::cpu::conv2d_forward(x.cpu(), weight.cpu(), bias.cpu(), y.cpu(), shape,
                           *ddp::cpu::make_loop_conv2d());
  ddp::cu::conv2d_forward(x.cuda(), weight.cuda(), bias.cuda(), y.cuda(), shape, *backend.conv2d,
                          {});
  y.check_equal(10 * kTolerance<T>);
}

TEMPLATE_TEST_CASE("the gradients of cu::conv2d equal their CPU twins", "[gpu][conv2d]", float,
                   double) {
  using T = TestType;
  Backend backend(GENERATE(false, true));
  if (!backend.conv2d) return;
  const Conv2dShape shape = GENERATE(from_range(shapes()));
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  CAPTURE(shape.batch, shape.in_channels, shape.out_channels);
  auto x = Twin<T>::uniform(shape.x_count(), 1), weight = Twin<T>::uniform(shape.weight_count(), 2);
  auto grad_y = Twin<T>::uniform(shape.y_count(), 3);
  auto grad_x = Twin<T>::gradient(shape.x_count(), mode);
  auto grad_weight = Twin<T>::gradient(shape.weight_count(), mode);
  auto grad_bias = Twin<T>::gradient(shape.out_channels, mode);
  const auto loops = ddp::cpu::make_loop_conv2d();
  const ddp::ChannelShape channels{shape.batch, shape.out_channels, shape.output().count()};
  ddp::cpu::conv2d_grad_input(weight.cpu(), grad_y.cpu(), {grad_x.cpu(), mode}, shape, *loops);
  ddp::cpu::conv2d_grad_weight(x.cpu(), grad_y.cpu(), {grad_weight.cpu(), mode}, shape, *loops);
  ddp::cpu::channel_bias_grad(grad_y.cpu(), {grad_bias.cpu(), mode}, channels);
  ddp::cu::conv2d_grad_input(weight.cuda(), grad_y.cuda(), {grad_x.cuda(), mode}, shape,
                             *backend.conv2d, {});
  ddp::cu::conv2d_grad_weight(x.cuda(), grad_y.cuda(), {grad_weight.cuda(), mode}, shape,
                              *backend.conv2d, {});
  ddp::cu::channel_bias_grad(grad_y.cuda(), {grad_bias.cuda(), mode}, channels, {});
  grad_x.check_equal(10 * kTolerance<T>);
  grad_weight.check_equal(100 * kTolerance<T>);  // sums of up to 112000 products
  grad_bias.check_equal(100 * kTolerance<T>);
}

// cuDNN may, but need not, use an algorithm that rounds.
TEST_CASE("a convolution may round float32 to TF32 if that is asked for", "[gpu][conv2d]") {
  const bool is_cudnn = GENERATE(false, true);
  Backend backend(is_cudnn, Float32Precision::kTf32);
  if (!backend.conv2d) return;
  constexpr Conv2dShape kShape{4, 64, 64, {10, 10}, {3, 3}};
  constexpr float kExact = 576 + 9 * 0x1p-6F, kRounded = 576;
  Twin<float> x(std::vector<float>(kShape.x_count(), 1 + 0x1p-12F));
  Twin<float> weight(std::vector<float>(kShape.weight_count(), 1));
  auto y = Twin<float>::poison(kShape.y_count());
  const auto none = Twin<float>::poison(0);
  ddp::cu::conv2d_forward(x.cuda(), weight.cuda(), none.cuda(), y.cuda(), kShape, *backend.conv2d,
                          {});
  const std::vector<float> result = y.download();
  CHECK(std::ranges::all_of(
      result, [&](float value) { return value == kRounded || (is_cudnn && value == kExact); }));
}

TEMPLATE_TEST_CASE("cu::gemm_batched equals products one by one", "[gpu][gemm]", float, double) {
  using T = TestType;
  const std::size_t batch = GENERATE(0U, 1U, 7U);
  const bool is_shared = GENERATE(false, true);
  const auto transpose = GENERATE(Transpose::kNo, Transpose::kYes);
  const GemmShape shape{5, 9, 4};
  auto a = Twin<T>::uniform(is_shared ? 20 : batch * 20, 1);
  auto b = Twin<T>::uniform(batch * 36, 2), c = Twin<T>::poison(batch * 45);
  for (std::size_t i = 0; i < batch; ++i) {
    ddp::cpu::gemm(a.cpu().slice(is_shared ? 0 : i * 20, 20), b.cpu().slice(i * 36, 36),
                   c.cpu().slice(i * 45, 45), shape, {transpose, transpose});
  }
  ddp::cu::Blas blas(kGpu);
  ddp::cu::gemm_batched(a.cuda(), b.cuda(), c.cuda(), shape, {transpose, transpose}, blas, {});
  c.check_equal(kTolerance<T>);
}
