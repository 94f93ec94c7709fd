// SPDX-License-Identifier: MIT
//
// Compares the CUDA kernels of element-wise operations, dropout and losses with their CPU twins.
#include <catch2/catch.hpp>

#include "ddp/kernels/add.h"
#include "ddp/kernels/columns.h"
#include "ddp/kernels/dropout.h"
#include "ddp/kernels/mask_overlap.h"
#include "ddp/kernels/pointwise_loss.h"
#include "ddp/kernels/sigmoid.h"
#include "gpu/twin.h"

namespace {

using ddp::MatrixShape;
using ddp::WriteMode;
using ddp::test::kTolerance;
using ddp::test::Twin;

WriteMode any_mode() { return GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate); }

}  // namespace

TEMPLATE_TEST_CASE("cu::mask_overlap equals its CPU twin", "[gpu]", float, double) {
  const std::size_t count = GENERATE(0U, 1U, 1009U, 20'000'003U);  // more than a grid
  auto logits = Twin<TestType>::uniform(count, 1), target = Twin<TestType>::uniform(count, 2);
  Twin<std::int64_t> counts({7, 8});
  ddp::cpu::mask_overlap(logits.cpu(), target.cpu(), counts.cpu());
  ddp::cu::mask_overlap(logits.cuda(), target.cuda(), counts.cuda(), {});
  counts.check_equal(0);
}

TEMPLATE_TEST_CASE("cu::add and cu::sigmoid equal their CPU twins", "[gpu]", float, double) {
  using T = TestType;
  const std::size_t count = GENERATE(0U, 1U, 1009U, 20'000'003U);  // more than a grid
  const WriteMode mode = any_mode();
  auto a = Twin<T>::uniform(count, 1), b = Twin<T>::uniform(count, 2), y = Twin<T>::poison(count);
  ddp::cpu::add(a.cpu(), b.cpu(), y.cpu());
  ddp::cu::add(a.cuda(), b.cuda(), y.cuda(), {});
  y.check_equal(0);
  ddp::cpu::sigmoid_forward(a.cpu(), y.cpu());
  ddp::cu::sigmoid_forward(a.cuda(), y.cuda(), {});
  y.check_equal(kTolerance<T>);
  auto grad_x = Twin<T>::gradient(count, mode);
  ddp::cpu::sigmoid_backward(a.cpu(), b.cpu(), {grad_x.cpu(), mode});
  ddp::cu::sigmoid_backward(a.cuda(), b.cuda(), {grad_x.cuda(), mode}, {});
  grad_x.check_equal(kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::put_columns and cu::take_columns equal their CPU twins", "[gpu]", float,
                   double) {
  using T = TestType;
  const auto range = GENERATE(ddp::ColumnRange{{0, 7}, 2, 3}, ddp::ColumnRange{{5, 7}, 0, 7},
                              ddp::ColumnRange{{500, 70}, 33, 37}, ddp::ColumnRange{{5, 7}, 7, 0});
  const WriteMode mode = any_mode();
  const std::size_t count = range.whole.rows * range.count;
  auto part = Twin<T>::uniform(count, 1), whole = Twin<T>::uniform(range.whole.count(), 2);
  ddp::cpu::put_columns(part.cpu(), whole.cpu(), range);
  ddp::cu::put_columns(part.cuda(), whole.cuda(), range, {});
  whole.check_equal(0);
  auto taken = Twin<T>::gradient(count, mode);
  ddp::cpu::take_columns(whole.cpu(), {taken.cpu(), mode}, range);
  ddp::cu::take_columns(whole.cuda(), {taken.cuda(), mode}, range, {});
  taken.check_equal(0);
}

TEMPLATE_TEST_CASE("cu::dropout drops what cpu::dropout drops", "[gpu]", float, double) {
  using T = TestType;
  const auto shape = GENERATE(MatrixShape{0, 7}, MatrixShape{5, 1}, MatrixShape{64, 1001});
  const double probability = GENERATE(0.0, 0.3, 1.0);
  const WriteMode mode = any_mode();
  const ddp::DropoutMask mask{
      .probability = probability, .key = 0x123456789abcdef0U, .first_row = 2, .row_stride = 3};
  auto x = Twin<T>::uniform(shape.count(), 1), y = Twin<T>::gradient(shape.count(), mode);
  ddp::cpu::dropout(x.cpu(), {y.cpu(), mode}, mask, shape);
  ddp::cu::dropout(x.cuda(), {y.cuda(), mode}, mask, shape, {});
  y.check_equal(kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::mse and cu::bce_with_logits equal their CPU twins", "[gpu]", float,
                   double) {
  using T = TestType;
  const auto shape = GENERATE(MatrixShape{0, 10}, MatrixShape{1, 1}, MatrixShape{64, 1001},
                              MatrixShape{70'000, 2}, MatrixShape{3, 0});
  auto x = Twin<T>::uniform(shape.count(), 1), target = Twin<T>::uniform(shape.count(), 2);
  auto rows = Twin<T>::poison(shape.rows), loss = Twin<T>::poison(1);
  ddp::cpu::mse_forward(x.cpu(), target.cpu(), {rows.cpu(), loss.cpu()}, shape);
  ddp::cu::mse_forward(x.cuda(), target.cuda(), {rows.cuda(), loss.cuda()}, shape, {});
  rows.check_equal(kTolerance<T>);
  loss.check_equal(kTolerance<T>);
  for (const WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
    auto grad_x = Twin<T>::gradient(shape.count(), mode);
    ddp::cpu::mse_backward(x.cpu(), target.cpu(), loss.cpu(), {grad_x.cpu(), mode}, shape);
    ddp::cu::mse_backward(x.cuda(), target.cuda(), loss.cuda(), {grad_x.cuda(), mode}, shape, {});
    grad_x.check_equal(kTolerance<T>);
  }

  constexpr double kPosWeight = 2.5;
  ddp::cpu::bce_with_logits_forward(x.cpu(), target.cpu(), kPosWeight, {rows.cpu(), loss.cpu()},
                                    shape);
  ddp::cu::bce_with_logits_forward(x.cuda(), target.cuda(), kPosWeight, {rows.cuda(), loss.cuda()},
                                   shape, {});
  rows.check_equal(kTolerance<T>);
  loss.check_equal(kTolerance<T>);
  for (const WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
    auto grad_x = Twin<T>::gradient(shape.count(), mode);
    ddp::cpu::bce_with_logits_backward(x.cpu(), target.cpu(), kPosWeight, loss.cpu(),
                                       {grad_x.cpu(), mode}, shape);
    ddp::cu::bce_with_logits_backward(x.cuda(), target.cuda(), kPosWeight, loss.cuda(),
                                      {grad_x.cuda(), mode}, shape, {});
    grad_x.check_equal(kTolerance<T>);
  }
}
