// SPDX-License-Identifier: MIT
//
// Compares the CUDA kernels with their CPU twins, which are the reference. Both get the same
// operands, including poison; everything that either wrote is compared.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/cross_entropy.h"
#include "ddp/kernels/gemm.h"
#include "gpu/twin.h"

namespace {

using ddp::Buffer;
using ddp::Float32Precision;
using ddp::GemmShape;
using ddp::MatrixShape;
using ddp::Transpose;
using ddp::WriteMode;
using ddp::test::kGpu;
using ddp::test::kTolerance;
using ddp::test::Twin;

Twin<std::int64_t> labels_below(std::size_t classes, std::size_t count) {
  std::vector<std::int64_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int64_t>(7 * i % classes);
  return Twin<std::int64_t>(std::move(labels));
}

}  // namespace

TEMPLATE_TEST_CASE("cu::gemm equals cpu::gemm", "[gpu][gemm]", float, double) {
  using T = TestType;
  const auto shape = GENERATE(GemmShape{1, 1, 1}, GemmShape{17, 19, 23}, GemmShape{64, 10, 128},
                              GemmShape{0, 4, 3}, GemmShape{4, 0, 3}, GemmShape{4, 3, 0});
  const auto transpose_a = GENERATE(Transpose::kNo, Transpose::kYes);
  const auto transpose_b = GENERATE(Transpose::kNo, Transpose::kYes);
  const double beta = GENERATE(0.0, 0.5);
  auto a = Twin<T>::uniform(shape.m * shape.k, 1), b = Twin<T>::uniform(shape.k * shape.n, 2);
  auto c = beta == 0 ? Twin<T>::poison(shape.m * shape.n) : Twin<T>::uniform(shape.m * shape.n, 3);
  const ddp::GemmOptions options{transpose_a, transpose_b, 1.5, beta};
  ddp::cu::Blas blas(kGpu);
  ddp::cpu::gemm(a.cpu(), b.cpu(), c.cpu(), shape, options);
  ddp::cu::gemm(a.cuda(), b.cuda(), c.cuda(), shape, options, blas, {});
  c.check_equal(10 * kTolerance<T>);
}

TEST_CASE("float32 operands of a product are rounded to TF32 only on request", "[gpu][gemm]") {
  const auto [precision, sum] = GENERATE(table<Float32Precision, float>(
      {{Float32Precision::kIeee, 256 + 0x1p-4F}, {Float32Precision::kTf32, 256}}));
  constexpr GemmShape kShape{256, 256, 256};
  Twin<float> a(std::vector<float>(kShape.m * kShape.k, 1 + 0x1p-12F));
  Twin<float> b(std::vector<float>(kShape.k * kShape.n, 1));
  auto c = Twin<float>::poison(kShape.m * kShape.n);
  ddp::cu::Blas blas(kGpu, precision);
  ddp::cu::gemm(a.cuda(), b.cuda(), c.cuda(), kShape, {}, blas, {});
  CHECK(c.download() == std::vector<float>(kShape.m * kShape.n, sum));
  ddp::cu::gemm_batched(a.cuda(), b.cuda(), c.cuda(), kShape, {}, blas, {});
  CHECK(c.download() == std::vector<float>(kShape.m * kShape.n, sum));
}

TEMPLATE_TEST_CASE("cu::bias_add and cu::bias_grad equal their CPU twins", "[gpu]", float, double) {
  using T = TestType;
  const auto shape =
      GENERATE(MatrixShape{3, 5}, MatrixShape{0, 5}, MatrixShape{1000, 33}, MatrixShape{2, 70000});
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  auto y = Twin<T>::uniform(shape.count(), 1), bias = Twin<T>::uniform(shape.columns, 2);
  ddp::cpu::bias_add(y.cpu(), bias.cpu(), shape);
  ddp::cu::bias_add(y.cuda(), bias.cuda(), shape, {});
  y.check_equal(kTolerance<T>);
  auto grad = Twin<T>::gradient(shape.columns, mode);
  ddp::cpu::bias_grad(y.cpu(), {grad.cpu(), mode}, shape);
  ddp::cu::bias_grad(y.cuda(), {grad.cuda(), mode}, shape, {});
  grad.check_equal(100 * kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::softmax_cross_entropy equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  const auto shape = GENERATE(MatrixShape{0, 10}, MatrixShape{1, 1}, MatrixShape{64, 10},
                              MatrixShape{700, 33}, MatrixShape{3, 1000}, MatrixShape{3, 4000},
                              MatrixShape{3, 2501}, MatrixShape{2, 9000}, MatrixShape{2, 9001});
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  const double smoothing = GENERATE(0.0, 0.1);
  auto logits = Twin<T>::uniform(shape.count(), 1);
  auto labels = labels_below(shape.columns, shape.rows);
  auto p = Twin<T>::poison(shape.count()), rows = Twin<T>::poison(shape.rows);
  auto loss = Twin<T>::poison(1), grad = Twin<T>::gradient(shape.count(), mode);
  ddp::cpu::softmax_cross_entropy_forward(logits.cpu(), labels.cpu(),
                                          {p.cpu(), rows.cpu(), loss.cpu()}, shape, smoothing);
  ddp::cu::softmax_cross_entropy_forward(
      logits.cuda(), labels.cuda(), {p.cuda(), rows.cuda(), loss.cuda()}, shape, smoothing, {});
  p.check_equal(kTolerance<T>);
  rows.check_equal(kTolerance<T>);
  loss.check_equal(kTolerance<T>);
  ddp::cpu::softmax_cross_entropy_backward(p.cpu(), labels.cpu(), loss.cpu(), {grad.cpu(), mode},
                                           shape, smoothing);
  ddp::cu::softmax_cross_entropy_backward(p.cuda(), labels.cuda(), loss.cuda(), {grad.cuda(), mode},
                                          shape, smoothing, {});
  grad.check_equal(kTolerance<T>);
}

TEST_CASE("a label outside its range makes the CUDA loss and its row's gradient NaN", "[gpu]") {
  Twin<float> logits(std::vector<float>(6)), p = Twin<float>::poison(6);
  Twin<float> rows(std::vector<float>(2)), loss(std::vector<float>(1));
  const std::int64_t label = GENERATE(as<std::int64_t>(), 3, -1);
  Twin<std::int64_t> labels(std::vector<std::int64_t>{0, label});
  ddp::cu::softmax_cross_entropy_forward(logits.cuda(), labels.cuda(),
                                         {p.cuda(), rows.cuda(), loss.cuda()}, {2, 3}, 0, {});
  Twin<float> one(std::vector<float>{1}), grad = Twin<float>::poison(6);
  ddp::cu::softmax_cross_entropy_backward(p.cuda(), labels.cuda(), one.cuda(), {grad.cuda()},
                                          {2, 3}, 0, {});
  float value = 0;
  std::array<float, 6> gradient{};
  ddp::cu::synchronize({});
  ddp::cu::copy_async(&value, loss.cuda().data, sizeof(value), {});
  ddp::cu::copy_async(gradient.data(), grad.cuda().data, sizeof(gradient), {});
  ddp::cu::synchronize({});
  CHECK(std::isnan(value));
  for (std::size_t i = 0; i < gradient.size(); ++i) CHECK(std::isnan(gradient[i]) == (i >= 3));
}

TEST_CASE("cu::count_correct equals cpu::count_correct, equal logits included", "[gpu]") {
  const auto shape = GENERATE(MatrixShape{0, 10}, MatrixShape{64, 10}, MatrixShape{5000, 100});
  const auto k = GENERATE(std::size_t{1}, std::size_t{5});
  std::vector<float> values(shape.count());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 7);
  Twin<float> logits(std::move(values));
  auto labels = labels_below(shape.columns, shape.rows);
  Twin<std::int64_t> count(std::vector<std::int64_t>{-5});
  ddp::cpu::count_correct(logits.cpu(), labels.cpu(), count.cpu(), shape, k);
  ddp::cu::count_correct(logits.cuda(), labels.cuda(), count.cuda(), shape, k, {});
  count.check_equal(0);
}
