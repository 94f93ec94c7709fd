// SPDX-License-Identifier: MIT
//
// Compares the CUDA kernels of transformers with their CPU twins, and a small GPT on the GPU with
// one on the CPU.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/embedding.h"
#include "ddp/kernels/layer_norm.h"
#include "ddp/kernels/softmax.h"
#include "ddp/kernels/transpose.h"
#include "ddp/nn/models/gpt.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "gpu/twin.h"
#include "support/write_modes.h"

namespace {

using ddp::MatrixShape;
using ddp::SoftmaxMask;
using ddp::TransposeShape;
using ddp::WriteMode;
using ddp::test::any_mode;
using ddp::test::kGpu;
using ddp::test::kTolerance;
using ddp::test::Twin;

constexpr auto kNone = SoftmaxMask::kNone, kCausal = SoftmaxMask::kCausal;

Twin<std::int64_t> indices_below(std::size_t rows, std::size_t count) {
  std::vector<std::int64_t> indices(count);
  for (std::size_t i = 0; i < count; ++i) indices[i] = static_cast<std::int64_t>(i * i % rows);
  return Twin<std::int64_t>(std::move(indices));
}

}  // namespace

TEMPLATE_TEST_CASE("cu::layer_norm equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  // A warp or a block per row, in its registers or not, in elements or in packs of them.
  const auto shape = GENERATE(MatrixShape{0, 10}, MatrixShape{1, 1}, MatrixShape{3, 0},
                              MatrixShape{700, 33}, MatrixShape{3, 1000}, MatrixShape{9, 2500},
                              MatrixShape{3, 4001}, MatrixShape{9, 9000}, MatrixShape{2, 9001});
  const WriteMode mode = any_mode();
  auto x = Twin<T>::uniform(shape.count(), 1), grad_y = Twin<T>::uniform(shape.count(), 2);
  auto weight = Twin<T>::uniform(shape.columns, 3), bias = Twin<T>::uniform(shape.columns, 4);
  auto y = Twin<T>::poison(shape.count());
  auto mean = Twin<T>::uniform(shape.rows, 5), rstd = Twin<T>::uniform(shape.rows, 6);
  ddp::cpu::layer_norm_forward(x.cpu(), weight.cpu(), bias.cpu(), 1e-5,
                               {y.cpu(), mean.cpu(), rstd.cpu()}, shape);
  ddp::cu::layer_norm_forward(x.cuda(), weight.cuda(), bias.cuda(), 1e-5,
                              {y.cuda(), mean.cuda(), rstd.cuda()}, shape, {});
  y.check_equal(kTolerance<T>);
  mean.check_equal(kTolerance<T>);
  rstd.check_equal(kTolerance<T>);

  auto grad_x = Twin<T>::gradient(shape.count(), mode);
  auto grad_weight = Twin<T>::gradient(shape.columns, mode);
  ddp::cpu::layer_norm_grad_input({x.cpu(), mean.cpu(), rstd.cpu()}, weight.cpu(), grad_y.cpu(),
                                  {grad_x.cpu(), mode}, shape);
  ddp::cu::layer_norm_grad_input({x.cuda(), mean.cuda(), rstd.cuda()}, weight.cuda(), grad_y.cuda(),
                                 {grad_x.cuda(), mode}, shape, {});
  grad_x.check_equal(kTolerance<T>);
  ddp::cpu::layer_norm_grad_weight({x.cpu(), mean.cpu(), rstd.cpu()}, grad_y.cpu(),
                                   {grad_weight.cpu(), mode}, shape);
  ddp::cu::layer_norm_grad_weight({x.cuda(), mean.cuda(), rstd.cuda()}, grad_y.cuda(),
                                  {grad_weight.cuda(), mode}, shape, {});
  grad_weight.check_equal(100 * kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::softmax equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  const auto [mask, shape] = GENERATE(table<SoftmaxMask, MatrixShape>({{kNone, {0, 10}},
                                                                       {kNone, {3, 0}},
                                                                       {kNone, {1, 1}},
                                                                       {kNone, {700, 35}},
                                                                       {kNone, {3, 2500}},
                                                                       {kNone, {3, 4001}},
                                                                       {kNone, {3, 9000}},
                                                                       {kNone, {3, 9001}},
                                                                       {kCausal, {0, 10}},
                                                                       {kCausal, {700, 35}},
                                                                       {kCausal, {300, 300}},
                                                                       {kCausal, {1030, 1030}}}));
  const WriteMode mode = any_mode();
  auto x = Twin<T>::uniform(shape.count(), 1), y = Twin<T>::poison(shape.count());
  ddp::cpu::softmax_forward(x.cpu(), y.cpu(), shape, mask);
  ddp::cu::softmax_forward(x.cuda(), y.cuda(), shape, mask, {});
  y.check_equal(kTolerance<T>);
  auto grad_y = Twin<T>::uniform(shape.count(), 2), grad_x = Twin<T>::gradient(shape.count(), mode);
  ddp::cpu::softmax_backward(y.cpu(), grad_y.cpu(), {grad_x.cpu(), mode}, shape);
  ddp::cu::softmax_backward(y.cuda(), grad_y.cuda(), {grad_x.cuda(), mode}, shape, {});
  grad_x.check_equal(kTolerance<T>);
}

TEMPLATE_TEST_CASE("cu::log_softmax equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  const auto shape = GENERATE(MatrixShape{0, 10}, MatrixShape{3, 0}, MatrixShape{1, 1},
                              MatrixShape{700, 35}, MatrixShape{3, 2500}, MatrixShape{3, 4001},
                              MatrixShape{3, 9000}, MatrixShape{3, 9001});
  const WriteMode mode = any_mode();
  auto x = Twin<T>::uniform(shape.count(), 1), y = Twin<T>::poison(shape.count());
  ddp::cpu::log_softmax_forward(x.cpu(), y.cpu(), shape);
  ddp::cu::log_softmax_forward(x.cuda(), y.cuda(), shape, {});
  y.check_equal(kTolerance<T>);
  auto grad_y = Twin<T>::uniform(shape.count(), 2), grad_x = Twin<T>::gradient(shape.count(), mode);
  ddp::cpu::log_softmax_backward(y.cpu(), grad_y.cpu(), {grad_x.cpu(), mode}, shape);
  ddp::cu::log_softmax_backward(y.cuda(), grad_y.cuda(), {grad_x.cuda(), mode}, shape, {});
  grad_x.check_equal(kTolerance<T>);
}

TEST_CASE("rows need not be aligned to 16 bytes on CUDA", "[gpu]") {
  constexpr MatrixShape kShape{9, 64};
  const auto behind_first = [](ddp::Buffer buffer) {
    buffer.data = static_cast<float*>(buffer.data) + 1;
    --buffer.count;
    return buffer;
  };
  const auto offset = GENERATE(std::size_t{0}, std::size_t{1});  // of the results
  auto x = Twin<float>::uniform(kShape.count() + 1, 1);
  auto y = Twin<float>::uniform(kShape.count() + offset, 2);
  const auto result = [&](ddp::Buffer buffer) {
    return offset == 1 ? behind_first(buffer) : buffer;
  };
  ddp::cpu::softmax_forward(behind_first(x.cpu()), result(y.cpu()), kShape, kNone);
  ddp::cu::softmax_forward(behind_first(x.cuda()), result(y.cuda()), kShape, kNone, {});
  y.check_equal(kTolerance<float>);
  auto indices = indices_below(kShape.rows, kShape.rows);
  ddp::cpu::embedding_forward(behind_first(x.cpu()), indices.cpu(), result(y.cpu()), kShape);
  ddp::cu::embedding_forward(behind_first(x.cuda()), indices.cuda(), result(y.cuda()), kShape, {});
  y.check_equal(0);
}

TEMPLATE_TEST_CASE("cu::embedding equals its CPU twin, bit for bit", "[gpu]", float, double) {
  using T = TestType;
  const auto table_shape = GENERATE(MatrixShape{1, 1}, MatrixShape{100, 300}, MatrixShape{7, 0},
                                    MatrixShape{5003, 5}, MatrixShape{5003, 8});
  const std::size_t positions = GENERATE(0U, 1U, 1009U, 4099U);
  const WriteMode mode = any_mode();
  auto table = Twin<T>::uniform(table_shape.count(), 1);
  auto indices = indices_below(table_shape.rows, positions);
  auto y = Twin<T>::poison(positions * table_shape.columns);
  ddp::cpu::embedding_forward(table.cpu(), indices.cpu(), y.cpu(), table_shape);
  ddp::cu::embedding_forward(table.cuda(), indices.cuda(), y.cuda(), table_shape, {});
  y.check_equal(0);
  auto grad_y = Twin<T>::uniform(positions * table_shape.columns, 2);
  auto grad = Twin<T>::gradient(table_shape.count(), mode);
  ddp::cpu::embedding_backward(grad_y.cpu(), indices.cpu(), {grad.cpu(), mode}, table_shape);
  ddp::cu::embedding_backward(grad_y.cuda(), indices.cuda(), {grad.cuda(), mode}, table_shape, {});
  grad.check_equal(0);
}

TEST_CASE("on CUDA an index outside the table gives a row of NaN, and no gradient", "[gpu]") {
  const std::int64_t index = GENERATE(as<std::int64_t>(), 3, -1);
  Twin<std::int64_t> indices(std::vector<std::int64_t>{0, index});
  Twin<double> table(std::vector<double>{1, 2, 3, 4, 5, 6}), y(std::vector<double>(4));
  ddp::cu::embedding_forward(table.cuda(), indices.cuda(), y.cuda(), {3, 2}, {});
  const std::vector<double> rows = y.download();
  CHECK((rows[0] == 1 && rows[1] == 2 && std::isnan(rows[2]) && std::isnan(rows[3])));
  Twin<double> grad_y(std::vector<double>{7, 8, 9, 10});
  ddp::cu::embedding_backward(grad_y.cuda(), indices.cuda(), {table.cuda()}, {3, 2}, {});
  CHECK(table.download() == std::vector<double>{7, 8, 0, 0, 0, 0});
}

TEMPLATE_TEST_CASE("cu::transpose equals its CPU twin", "[gpu]", float, double) {
  using T = TestType;
  const auto shape = GENERATE(TransposeShape{}, TransposeShape{3, 17, 1, 4, 33},
                              TransposeShape{2, 5, 3, 70, 1}, TransposeShape{2, 0, 1, 4, 5});
  const WriteMode mode = any_mode();
  auto x = Twin<T>::uniform(shape.count(), 1), y = Twin<T>::gradient(shape.count(), mode);
  ddp::cpu::transpose(x.cpu(), {y.cpu(), mode}, shape);
  ddp::cu::transpose(x.cuda(), {y.cuda(), mode}, shape, {});
  y.check_equal(0);
}

namespace {

using namespace ddp::nn;

// The losses of three steps.
std::vector<double> train_gpt(ddp::Device device, ddp::DType dtype,
                              std::optional<ddp::DType> autocast = {}) {
  Context context(device);
  Gpt model({context, dtype, 1},
            {.vocabulary = 11, .context = 8, .layers = 2, .heads = 2, .width = 12});
  std::vector<std::int64_t> tokens(3 * 7);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int64_t>(i * i % 11);
  const Tensor input = context.from_host(tokens, {3, 7});
  const Tensor labels = context.from_host(tokens, {3 * 7});
  Tape tape(context, Recording::kOn, autocast);
  Sgd sgd(context, model.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) {
    const Variable loss = softmax_cross_entropy(tape, model.forward(tape, input), labels);
    const Tensor exact = context.empty({}, ddp::DType::kFloat64);
    ddp::cast(loss.value().buffer(), exact.buffer(), context.stream());
    losses.push_back(context.to_host<double>(exact).front());
    tape.backward(loss);
    sgd.step();
  }
  return losses;
}

void check_losses(ddp::DType dtype, std::optional<ddp::DType> autocast, double tolerance) {
  const std::vector<double> expected = train_gpt(ddp::kCpuDevice, dtype, autocast);
  const std::vector<double> losses = train_gpt(kGpu, dtype, autocast);
  for (std::size_t step = 0; step < expected.size(); ++step) {
    CHECK(losses[step] == Approx(expected[step]).epsilon(tolerance));
  }
  CHECK(expected.back() < expected.front());
}

}  // namespace

TEST_CASE("a GPT trains on the GPU as on the CPU", "[gpu][nn]") {
  check_losses(ddp::DType::kFloat64, {}, 1e-12);
  check_losses(ddp::DType::kFloat32, {}, 1e-5);
}

TEST_CASE("a GPT trains in 16 bits on the GPU as on the CPU", "[gpu][amp]") {
  check_losses(ddp::DType::kFloat32, ddp::DType::kBFloat16, 1e-2);
}
