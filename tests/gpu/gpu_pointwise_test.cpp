// SPDX-License-Identifier: MIT
//
// Compares the CUDA kernels of element-wise operations, dropout and losses with their CPU twins.
#include <catch2/catch.hpp>
#include <cstddef>
#include <type_traits>

#include "ddp/kernels/binary.h"
#include "ddp/kernels/columns.h"
#include "ddp/kernels/dropout.h"
#include "ddp/kernels/mask_overlap.h"
#include "ddp/kernels/pointwise_loss.h"
#include "ddp/kernels/row_sums.h"
#include "ddp/kernels/unary.h"
#include "gpu/emulated.h"
#include "gpu/twin.h"
#include "support/write_modes.h"

namespace {

using ddp::MatrixShape;
using ddp::PointwiseLossKind;
using ddp::WriteMode;
using ddp::test::any_mode;
using ddp::test::is_emulated;
using ddp::test::kTolerance;
using ddp::test::Twin;

// The loops over a grid are the same for every type, so one type shows them where grids are large.
template <class T>
constexpr bool kFillsGrid = std::is_same_v<T, float>;
// More than a grid has threads. Those of the emulation are small.
template <class T>
std::size_t many_elements() {
  return is_emulated() ? 100'003 : kFillsGrid<T> ? 20'000'003 : 2003;
}
// More than a grid has blocks.
template <class T>
std::size_t many_rows() {
  return is_emulated() || !kFillsGrid<T> ? 700 : 70'000;
}

}  // namespace

TEMPLATE_TEST_CASE("cu::mask_overlap equals its CPU twin", "[gpu]", float, double) {
  const std::size_t count =
      GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{1009}, many_elements<TestType>());
  auto logits = Twin<TestType>::uniform(count, 1), target = Twin<TestType>::uniform(count, 2);
  Twin<std::int64_t> counts({7, 8});
  ddp::cpu::mask_overlap(logits.cpu(), target.cpu(), counts.cpu());
  ddp::cu::mask_overlap(logits.cuda(), target.cuda(), counts.cuda(), {});
  counts.check_equal(0);
}

TEMPLATE_TEST_CASE("cu::unary_forward and its backward equal their CPU twins", "[gpu]", float,
                   double) {
  using T = TestType;
  using K = ddp::UnaryKind;
  const K kind = GENERATE(K::kAbs, K::kAffine, K::kClamp, K::kExp, K::kGelu, K::kGeluTanh,
                          K::kLeakyRelu, K::kLog, K::kRelu, K::kSigmoid, K::kSilu, K::kSoftplus,
                          K::kSqrt, K::kSquare, K::kTanh);
  const std::size_t count = GENERATE(0U, 1U, 1009U);
  const WriteMode mode = any_mode();
  const ddp::UnaryFunction f{kind, 0.25, 1.5};
  CAPTURE(static_cast<int>(kind), count);
  auto x = Twin<T>::uniform(count, 1), y = Twin<T>::poison(count);
  auto grad_y = Twin<T>::uniform(count, 2), grad_x = Twin<T>::gradient(count, mode);
  if (kind == K::kLog || kind == K::kSqrt) {  // a positive operand
    ddp::cpu::unary_forward(x.cpu(), x.cpu(), {K::kExp});
    ddp::cu::unary_forward(x.cuda(), x.cuda(), {K::kExp}, {});
  }
  ddp::cpu::unary_forward(x.cpu(), y.cpu(), f);
  ddp::cu::unary_forward(x.cuda(), y.cuda(), f, {});
  y.check_equal(kTolerance<T>);
  auto& kept = ddp::is_slope_of_value(kind) ? y : x;
  ddp::cpu::unary_backward(kept.cpu(), grad_y.cpu(), {grad_x.cpu(), mode}, f);
  ddp::cu::unary_backward(kept.cuda(), grad_y.cuda(), {grad_x.cuda(), mode}, f, {});
  grad_x.check_equal(kTolerance<T>);
}

TEMPLATE_TEST_CASE("element-wise kernels process more than a grid", "[gpu]", float, double) {
  using T = TestType;
  const std::size_t count = many_elements<T>();
  constexpr ddp::UnaryFunction kRelu{ddp::UnaryKind::kRelu};
  auto a = Twin<T>::uniform(count, 1), b = Twin<T>::uniform(count, 2);
  auto y = Twin<T>::poison(count);
  ddp::cpu::unary_forward(a.cpu(), y.cpu(), kRelu);
  ddp::cu::unary_forward(a.cuda(), y.cuda(), kRelu, {});
  y.check_equal(0);
  ddp::cpu::unary_backward(y.cpu(), b.cpu(), {a.cpu()}, kRelu);
  ddp::cu::unary_backward(y.cuda(), b.cuda(), {a.cuda()}, kRelu, {});
  a.check_equal(0);
  ddp::cpu::binary(a.cpu(), b.cpu(), {y.cpu()}, {ddp::BinaryKind::kSum});
  ddp::cu::binary(a.cuda(), b.cuda(), {y.cuda()}, {ddp::BinaryKind::kSum}, {});
  y.check_equal(0);
}

TEMPLATE_TEST_CASE("cu::binary equals cpu::binary", "[gpu]", float, double) {
  using T = TestType;
  using K = ddp::BinaryKind;
  const K kind = GENERATE(K::kSum, K::kProduct, K::kQuotient, K::kMix);
  const std::size_t count = GENERATE(0U, 1U, 1009U);
  const double factor = GENERATE(-1.0, 0.25, 0.75);
  const WriteMode mode = any_mode();
  auto a = Twin<T>::uniform(count, 1), b = Twin<T>::uniform(count, 2);
  auto y = Twin<T>::gradient(count, mode);
  ddp::cpu::binary(a.cpu(), b.cpu(), {y.cpu(), mode}, {kind, factor});
  ddp::cu::binary(a.cuda(), b.cuda(), {y.cuda(), mode}, {kind, factor}, {});
  y.check_equal(kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::row_sums equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  const auto shape =
      GENERATE(MatrixShape{0, 10}, MatrixShape{1, 1}, MatrixShape{64, 1001},
               MatrixShape{many_rows<T>(), 2}, MatrixShape{3, 0}, MatrixShape{1, 70'000});
  auto x = Twin<T>::uniform(shape.count(), 1), sums = Twin<T>::poison(shape.rows);
  ddp::cpu::row_sums_forward(x.cpu(), sums.cpu(), shape);
  ddp::cu::row_sums_forward(x.cuda(), sums.cuda(), shape, {});
  sums.check_equal(kTolerance<T>);
  auto grad_sums = Twin<T>::uniform(shape.rows, 2);
  for (const WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
    auto grad_x = Twin<T>::gradient(shape.count(), mode);
    ddp::cpu::row_sums_backward(grad_sums.cpu(), {grad_x.cpu(), mode}, shape);
    ddp::cu::row_sums_backward(grad_sums.cuda(), {grad_x.cuda(), mode}, shape, {});
    grad_x.check_equal(kTolerance<T>);
  }
}

TEMPLATE_TEST_CASE("cu::put_columns and cu::take_columns equal their CPU twins", "[gpu]", float,
                   double) {
  using T = TestType;
  const auto range = GENERATE(ddp::ColumnRange{{0, 7}, 2, 3}, ddp::ColumnRange{{5, 7}, 0, 7},
                              ddp::ColumnRange{{500, 70}, 33, 37}, ddp::ColumnRange{{5, 7}, 7, 0});
  const WriteMode mode = any_mode();
  const std::size_t count = range.whole.rows * range.count;
  auto part = Twin<T>::uniform(count, 1), whole = Twin<T>::uniform(range.whole.count(), 2);
  ddp::cpu::put_columns(part.cpu(), {whole.cpu(), mode}, range);
  ddp::cu::put_columns(part.cuda(), {whole.cuda(), mode}, range, {});
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

TEMPLATE_TEST_CASE("cu::pointwise_loss equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  const auto shape = GENERATE(MatrixShape{0, 10}, MatrixShape{1, 1}, MatrixShape{64, 1001},
                              MatrixShape{many_rows<T>(), 2}, MatrixShape{3, 0});
  const ddp::PointwiseLoss f =
      GENERATE(ddp::PointwiseLoss{PointwiseLossKind::kSquaredError},
               ddp::PointwiseLoss{.kind = PointwiseLossKind::kBceWithLogits, .pos_weight = 2.5});
  auto x = Twin<T>::uniform(shape.count(), 1), target = Twin<T>::uniform(shape.count(), 2);
  auto rows = Twin<T>::poison(shape.rows), loss = Twin<T>::poison(1);
  ddp::cpu::pointwise_loss_forward(x.cpu(), target.cpu(), {rows.cpu(), loss.cpu()}, shape, f);
  ddp::cu::pointwise_loss_forward(x.cuda(), target.cuda(), {rows.cuda(), loss.cuda()}, shape, f,
                                  {});
  rows.check_equal(kTolerance<T>);
  loss.check_equal(kTolerance<T>);
  for (const WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
    auto grad_x = Twin<T>::gradient(shape.count(), mode);
    ddp::cpu::pointwise_loss_backward(x.cpu(), target.cpu(), loss.cpu(), {grad_x.cpu(), mode},
                                      shape, f);
    ddp::cu::pointwise_loss_backward(x.cuda(), target.cuda(), loss.cuda(), {grad_x.cuda(), mode},
                                     shape, f, {});
    grad_x.check_equal(kTolerance<T>);
  }
}
