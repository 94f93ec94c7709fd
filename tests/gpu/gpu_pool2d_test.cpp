// SPDX-License-Identifier: MIT
//
// Compares the CUDA kernels of pooling, upsampling and the bias of channels with their CPU twins.
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/max_pool2d.h"
#include "ddp/kernels/upsample_nearest2d.h"
#include "gpu/twin.h"

namespace {

using ddp::AdaptivePool2dShape;
using ddp::ChannelShape;
using ddp::Pool2dShape;
using ddp::Upsample2dShape;
using ddp::WriteMode;
using ddp::test::kTolerance;
using ddp::test::Twin;

// For windowed and adaptive average pooling.
template <class T, class Shape>
void compare_averages(const Shape& shape, WriteMode mode) {
  auto x = Twin<T>::uniform(shape.x_count(), 1), y = Twin<T>::poison(shape.y_count());
  ddp::cpu::avg_pool2d_forward(x.cpu(), y.cpu(), shape);
  ddp::cu::avg_pool2d_forward(x.cuda(), y.cuda(), shape, {});
  y.check_equal(kTolerance<T>);
  auto grad_y = Twin<T>::uniform(shape.y_count(), 2);
  auto grad_x = Twin<T>::gradient(shape.x_count(), mode);
  ddp::cpu::avg_pool2d_backward(grad_y.cpu(), {grad_x.cpu(), mode}, shape);
  ddp::cu::avg_pool2d_backward(grad_y.cuda(), {grad_x.cuda(), mode}, shape, {});
  grad_x.check_equal(kTolerance<T>);
}

}  // namespace

TEMPLATE_TEST_CASE("cu::max_pool2d equals its CPU twin", "[gpu][max_pool2d]", float, double) {
  using T = TestType;
  const auto shape = GENERATE(
      Pool2dShape{0, {4, 4}, {2, 2}, {2, 2}}, Pool2dShape{384, {28, 28}, {2, 2}, {2, 2}},
      Pool2dShape{2, {7, 9}, {2, 2}, {2, 2}}, Pool2dShape{3, {8, 7}, {3, 2}, {1, 2}},
      Pool2dShape{2, {5, 5}, {1, 1}, {3, 3}}, Pool2dShape{3, {8, 8}, {3, 3}, {2, 2}, {1, 1}},
      Pool2dShape{2, {5, 9}, {2, 4}, {1, 3}, {1, 2}});
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  auto x = Twin<T>::uniform(shape.x_count(), 1), y = Twin<T>::poison(shape.y_count());
  Twin<std::int32_t> indices(std::vector<std::int32_t>(shape.y_count(), -1));
  ddp::cpu::max_pool2d_forward(x.cpu(), y.cpu(), indices.cpu(), shape);
  ddp::cu::max_pool2d_forward(x.cuda(), y.cuda(), indices.cuda(), shape, {});
  y.check_equal(0);
  indices.check_equal(0);
  auto grad_y = Twin<T>::uniform(shape.y_count(), 2);
  auto grad_x = Twin<T>::gradient(shape.x_count(), mode);
  ddp::cpu::max_pool2d_backward(grad_y.cpu(), indices.cpu(), {grad_x.cpu(), mode}, shape);
  ddp::cu::max_pool2d_backward(grad_y.cuda(), indices.cuda(), {grad_x.cuda(), mode}, shape, {});
  grad_x.check_equal(kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::avg_pool2d equals its CPU twin", "[gpu][avg_pool2d]", float, double) {
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  compare_averages<TestType>(GENERATE(Pool2dShape{0, {4, 4}, {2, 2}, {2, 2}},
                                      Pool2dShape{3, {8, 8}, {3, 3}, {2, 2}, {1, 1}},
                                      Pool2dShape{2, {5, 9}, {2, 4}, {1, 3}, {1, 2}}),
                             mode);
  compare_averages<TestType>(
      GENERATE(AdaptivePool2dShape{512, {2, 2}, {1, 1}}, AdaptivePool2dShape{2, {7, 5}, {3, 2}},
               AdaptivePool2dShape{2, {3, 4}, {5, 4}}),
      mode);
}

TEMPLATE_TEST_CASE("cu::upsample_nearest2d equals its CPU twin", "[gpu][upsample]", float, double) {
  using T = TestType;
  const auto shape =
      GENERATE(Upsample2dShape{0, {4, 5}, {2, 2}}, Upsample2dShape{3, {4, 5}, {2, 2}},
               Upsample2dShape{2, {1, 3}, {1, 3}});
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  auto x = Twin<T>::uniform(shape.x_count(), 1), y = Twin<T>::poison(shape.y_count());
  ddp::cpu::upsample_nearest2d_forward(x.cpu(), y.cpu(), shape);
  ddp::cu::upsample_nearest2d_forward(x.cuda(), y.cuda(), shape, {});
  y.check_equal(0);
  auto grad_y = Twin<T>::uniform(shape.y_count(), 2);
  auto grad_x = Twin<T>::gradient(shape.x_count(), mode);
  ddp::cpu::upsample_nearest2d_backward(grad_y.cpu(), {grad_x.cpu(), mode}, shape);
  ddp::cu::upsample_nearest2d_backward(grad_y.cuda(), {grad_x.cuda(), mode}, shape, {});
  grad_x.check_equal(kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::channel_bias_add equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  const auto shape = GENERATE(ChannelShape{0, 3, 4}, ChannelShape{5, 7, 9}, ChannelShape{2, 300, 1},
                              ChannelShape{9, 2, 48 * 48});
  auto y = Twin<T>::uniform(shape.count(), 1), bias = Twin<T>::uniform(shape.channels, 2);
  ddp::cpu::channel_bias_add(y.cpu(), bias.cpu(), shape);
  ddp::cu::channel_bias_add(y.cuda(), bias.cuda(), shape, {});
  y.check_equal(kTolerance<T>);
}
