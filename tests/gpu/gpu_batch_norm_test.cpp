// SPDX-License-Identifier: MIT
//
// Batch normalisation: the CUDA kernels compared with the CPU ones.
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "ddp/kernels/batch_norm.h"
#include "ddp/kernels/channel_moments.h"
#include "gpu/twin.h"

namespace {

using ddp::ChannelShape;
using ddp::WriteMode;
using ddp::test::kTolerance;
using ddp::test::Twin;

ChannelShape any_shape() {
  return GENERATE(ChannelShape{0, 3, 4}, ChannelShape{5, 3, 1}, ChannelShape{4, 70, 35},
                  ChannelShape{2, 1, 100'003}, ChannelShape{3, 0, 2},
                  ChannelShape{9, 2, 48 * 48});  // several loads of 16 bytes a thread
}

Twin<double> moments_twin(std::size_t channels, double n, unsigned seed) {
  auto twin = Twin<double>::uniform(ddp::moments_count(channels), seed);
  std::vector<double> values(twin.cpu().as<double>().begin(), twin.cpu().as<double>().end());
  for (std::size_t c = channels; c < 2 * channels; ++c) values[c] = n * (values[c] + 3);
  values.back() = n;
  return Twin<double>(std::move(values));
}

}  // namespace

TEMPLATE_TEST_CASE("cu::channel_moments equals its CPU twin", "[gpu]", float, double) {
  const ChannelShape shape = any_shape();
  auto x = Twin<TestType>::uniform(shape.count(), 1);
  auto moments = Twin<double>::poison(ddp::moments_count(shape.channels));
  ddp::cpu::channel_moments(x.cpu(), moments.cpu(), shape);
  ddp::cu::channel_moments(x.cuda(), moments.cuda(), shape, {});
  moments.check_equal(1e-12);
}

TEST_CASE("cu::merge_moments equals its CPU twin", "[gpu]") {
  const std::size_t channels = GENERATE(0U, 1U, 300U);
  std::vector<double> parts;
  for (const double n : {5.0, 0.0, 1.0, 1000.0}) {
    auto twin = moments_twin(channels, n, 7);
    const auto part = twin.cpu().as<double>();
    parts.insert(parts.end(), part.begin(), part.end());
  }
  Twin<double> all(std::move(parts)), moments = Twin<double>::poison(ddp::moments_count(channels));
  ddp::cpu::merge_moments(all.cpu(), moments.cpu());
  ddp::cu::merge_moments(all.cuda(), moments.cuda(), {});
  moments.check_equal(1e-12);
}

TEMPLATE_TEST_CASE("CUDA statistics of moments equal their CPU twins", "[gpu]", float, double) {
  using T = TestType;
  const std::size_t channels = GENERATE(0U, 3U, 300U);
  auto moments = moments_twin(channels, GENERATE(0.0, 1.0, 40.0), 1);
  auto mean = Twin<T>::poison(channels), invstd = Twin<T>::poison(channels);
  ddp::cpu::moments_to_statistics(moments.cpu(), 1e-5, mean.cpu(), invstd.cpu());
  ddp::cu::moments_to_statistics(moments.cuda(), 1e-5, mean.cuda(), invstd.cuda(), {});
  mean.check_equal(kTolerance<T>);
  invstd.check_equal(kTolerance<T>);

  const std::optional<double> momentum =
      GENERATE(std::optional<double>(), std::optional<double>(0.1));
  auto running_mean = Twin<T>::uniform(channels, 2), variance = Twin<T>::uniform(channels, 3);
  Twin<std::int64_t> batches(std::vector<std::int64_t>{3});
  ddp::cpu::track_statistics(moments.cpu(), momentum,
                             {running_mean.cpu(), variance.cpu(), batches.cpu()});
  ddp::cu::track_statistics(moments.cuda(), momentum,
                            {running_mean.cuda(), variance.cuda(), batches.cuda()}, {});
  running_mean.check_equal(kTolerance<T>);
  variance.check_equal(kTolerance<T>);
  batches.check_equal(0);
}

TEMPLATE_TEST_CASE("cu::variance_to_invstd equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  std::vector<T> variances(301);
  for (std::size_t i = 0; i < variances.size(); ++i) variances[i] = static_cast<T>(i) / 7;
  Twin<T> variance(std::move(variances)), invstd = Twin<T>::poison(301);
  ddp::cpu::variance_to_invstd(variance.cpu(), 1e-5, invstd.cpu());
  ddp::cu::variance_to_invstd(variance.cuda(), 1e-5, invstd.cuda(), {});
  invstd.check_equal(kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::batch_norm_forward equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  const ChannelShape shape = any_shape();
  const bool is_affine = GENERATE(true, false);
  const std::size_t parameters = is_affine ? shape.channels : 0;
  auto x = Twin<T>::uniform(shape.count(), 1), y = Twin<T>::poison(shape.count());
  auto mean = Twin<T>::uniform(shape.channels, 2), invstd = Twin<T>::uniform(shape.channels, 3);
  auto weight = Twin<T>::uniform(parameters, 4), bias = Twin<T>::uniform(parameters, 5);
  ddp::cpu::batch_norm_forward(x.cpu(), {mean.cpu(), invstd.cpu(), weight.cpu()}, bias.cpu(),
                               y.cpu(), shape);
  ddp::cu::batch_norm_forward(x.cuda(), {mean.cuda(), invstd.cuda(), weight.cuda()}, bias.cuda(),
                              y.cuda(), shape, {});
  y.check_equal(kTolerance<T>);
}

TEMPLATE_TEST_CASE("CUDA gradients of a batch norm equal their CPU twins", "[gpu]", float, double) {
  using T = TestType;
  const ChannelShape shape = any_shape();
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  auto x = Twin<T>::uniform(shape.count(), 1), grad_y = Twin<T>::uniform(shape.count(), 6);
  auto mean = Twin<T>::uniform(shape.channels, 2), invstd = Twin<T>::uniform(shape.channels, 3);
  auto weight = Twin<T>::uniform(shape.channels, 4);
  auto sums = Twin<double>::poison(2 * shape.channels);
  ddp::cpu::batch_norm_sums(x.cpu(), grad_y.cpu(), mean.cpu(), sums.cpu(), shape);
  ddp::cu::batch_norm_sums(x.cuda(), grad_y.cuda(), mean.cuda(), sums.cuda(), shape, {});
  sums.check_equal(100 * kTolerance<T>);

  auto grad_bias = Twin<T>::gradient(shape.channels, mode);
  auto grad_weight = Twin<T>::gradient(shape.channels, mode);
  ddp::cpu::batch_norm_grad_bias(sums.cpu(), {grad_bias.cpu(), mode});
  ddp::cu::batch_norm_grad_bias(sums.cuda(), {grad_bias.cuda(), mode}, {});
  ddp::cpu::batch_norm_grad_weight(sums.cpu(), invstd.cpu(), {grad_weight.cpu(), mode});
  ddp::cu::batch_norm_grad_weight(sums.cuda(), invstd.cuda(), {grad_weight.cuda(), mode}, {});
  grad_bias.check_equal(100 * kTolerance<T>);
  grad_weight.check_equal(100 * kTolerance<T>);

  Twin<double> n(std::vector<double>{GENERATE(0.0, 17.0)});
  auto terms = Twin<T>::poison(2 * shape.channels);
  ddp::cpu::batch_norm_terms(sums.cpu(), n.cpu(), invstd.cpu(), terms.cpu());
  ddp::cu::batch_norm_terms(sums.cuda(), n.cuda(), invstd.cuda(), terms.cuda(), {});
  terms.check_equal(100 * kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::batch_norm_grad_input equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  const ChannelShape shape = any_shape();
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  const bool has_terms = GENERATE(true, false);
  auto x = Twin<T>::uniform(shape.count(), 1), grad_y = Twin<T>::uniform(shape.count(), 6);
  auto mean = Twin<T>::uniform(shape.channels, 2), invstd = Twin<T>::uniform(shape.channels, 3);
  auto weight = Twin<T>::uniform(shape.channels, 4);
  auto terms = Twin<T>::uniform(has_terms ? 2 * shape.channels : 0, 5);
  auto grad_x = Twin<T>::gradient(shape.count(), mode);
  ddp::cpu::batch_norm_grad_input(x.cpu(), grad_y.cpu(), {mean.cpu(), invstd.cpu(), weight.cpu()},
                                  terms.cpu(), {grad_x.cpu(), mode}, shape);
  ddp::cu::batch_norm_grad_input(x.cuda(), grad_y.cuda(),
                                 {mean.cuda(), invstd.cuda(), weight.cuda()}, terms.cuda(),
                                 {grad_x.cuda(), mode}, shape, {});
  grad_x.check_equal(10 * kTolerance<T>);
}
