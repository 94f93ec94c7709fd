// SPDX-License-Identifier: MIT
//
// Compares CUDA kernels that take 16-bit operands with their CPU twins, for which Context widens
// the operands and rounds the results.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/batch_norm.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/binary.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/channel_moments.h"
#include "ddp/kernels/dropout.h"
#include "ddp/kernels/max_pool2d.h"
#include "ddp/kernels/transpose.h"
#include "ddp/kernels/unary.h"
#include "ddp/nn/context.h"
#include "support/write_modes.h"

namespace {

using ddp::Buffer;
using ddp::ChannelShape;
using ddp::DType;
using ddp::GradientTarget;
using ddp::WriteMode;
using ddp::nn::Context;
using ddp::nn::Tensor;
using ddp::test::any_mode;

enum class Content { kRandom, kPoison };

// An operand of both calls.
struct Operand {
  std::size_t count;
  DType dtype;
  Content content = Content::kRandom;
};

void write(Context& context, const Operand& operand, std::size_t number, const Buffer& target) {
  std::vector<double> values(operand.count, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; operand.content == Content::kRandom && i < values.size(); ++i) {
    values[i] = 2 * ddp::random_unit(number, 7, i) - 1;
  }
  const Tensor wide = context.from_host(values, {operand.count});
  ddp::cast(wide.buffer(), target, context.stream());
}

// Calls call(context, operands), and returns the operands after it. Operand number `shifted`, if
// there is one, is not aligned to 16 bytes.
template <class Call>
std::vector<std::vector<double>> results_of(Context& context, const std::vector<Operand>& operands,
                                            const Call& call, std::size_t shifted) {
  std::vector<Tensor> memory;
  std::vector<Buffer> buffers;
  for (const Operand& operand : operands) {
    const std::size_t number = buffers.size();
    memory.push_back(context.empty({operand.count + 2}, operand.dtype));
    buffers.push_back(memory.back().buffer().slice(number == shifted ? 1 : 0, operand.count));
    write(context, operand, number, buffers.back());
  }
  call(context, buffers);
  std::vector<std::vector<double>> results;
  for (const Buffer& buffer : buffers) {
    const Tensor wide = context.empty({buffer.count}, DType::kFloat64);
    ddp::cast(buffer, wide.buffer(), context.stream());
    results.push_back(context.to_host<double>(wide));
  }
  return results;
}

// Up to a rounding to the operand's type.
bool are_equal(const std::vector<double>& values, const std::vector<double>& expected,
               DType dtype) {
  const double rounding = dtype == DType::kBFloat16  ? 0x1p-7
                          : dtype == DType::kFloat16 ? 0x1p-10
                                                     : 1e-4;
  return std::ranges::equal(values, expected, [&](double value, double other) {
    return value == Approx(other).epsilon(rounding).margin(rounding / 4);
  });
}

// Checks that each operand is the same after the call on both devices.
template <class Call>
void compare(const std::vector<Operand>& operands, const Call& call) {
  Context cpu, gpu(ddp::cuda_device(0));
  const auto expected = results_of(cpu, operands, call, operands.size());
  for (std::size_t shifted = 0; shifted <= operands.size(); ++shifted) {
    const auto values = results_of(gpu, operands, call, shifted);
    for (std::size_t o = 0; o < operands.size(); ++o) {
      INFO("operand " << o << ", if operand " << shifted << " is not aligned");
      CHECK(are_equal(values[o], expected[o], operands[o].dtype));
    }
  }
}

DType any_narrow() { return GENERATE(DType::kBFloat16, DType::kFloat16); }
Content before(WriteMode mode) {
  return mode == WriteMode::kOverwrite ? Content::kPoison : Content::kRandom;
}

// For windowed and adaptive average pooling.
template <class Shape>
void compare_averages(const Shape& shape, DType type, WriteMode mode) {
  compare({{shape.x_count(), type}, {shape.y_count(), type, Content::kPoison}},
          [&](Context& context, const auto& of) {
            using Cpu = void(const Buffer&, const Buffer&, const Shape&);
            using Cuda = void(const Buffer&, const Buffer&, const Shape&, ddp::Stream);
            constexpr Cpu* kCpu = ddp::cpu::avg_pool2d_forward;
            constexpr Cuda* kCuda = ddp::cu::avg_pool2d_forward;
            context.run_any_float(kCpu, kCuda, of[0], of[1], shape);
          });
  compare({{shape.y_count(), type}, {shape.x_count(), type, before(mode)}},
          [&](Context& context, const auto& of) {
            using Cpu = void(const Buffer&, const GradientTarget&, const Shape&);
            using Cuda = void(const Buffer&, const GradientTarget&, const Shape&, ddp::Stream);
            constexpr Cpu* kCpu = ddp::cpu::avg_pool2d_backward;
            constexpr Cuda* kCuda = ddp::cu::avg_pool2d_backward;
            context.run_any_float(kCpu, kCuda, of[0], GradientTarget{of[1], mode}, shape);
          });
}

}  // namespace

TEST_CASE("element-wise CUDA kernels take 16-bit types", "[gpu][any_float]") {
  const DType type = any_narrow();
  const WriteMode mode = any_mode();
  const std::size_t count = GENERATE(1U, 1024U, 1001U);
  const auto kind = GENERATE(ddp::UnaryKind::kRelu, ddp::UnaryKind::kGelu);
  compare({{count, type}, {count, type, Content::kPoison}}, [&](Context& context, const auto& of) {
    context.run_any_float(ddp::cpu::unary_forward, ddp::cu::unary_forward, of[0], of[1],
                          ddp::UnaryFunction{kind});
  });
  compare({{count, type}, {count, type}, {count, type, before(mode)}},
          [&](Context& context, const auto& of) {
            context.run_any_float(ddp::cpu::unary_backward, ddp::cu::unary_backward, of[0], of[1],
                                  GradientTarget{of[2], mode}, ddp::UnaryFunction{kind});
          });
  compare({{count, type}, {count, type}, {count, type, before(mode)}}, [&](Context& context,
                                                                           const auto& of) {
    context.run_any_float(ddp::cpu::binary, ddp::cu::binary, of[0], of[1],
                          GradientTarget{of[2], mode}, ddp::BinaryFunction{ddp::BinaryKind::kSum});
  });
}

TEST_CASE("CUDA kernels of rows and columns take 16-bit types", "[gpu][any_float]") {
  const DType type = any_narrow();
  const WriteMode mode = any_mode();
  const auto shape = GENERATE(ddp::MatrixShape{70, 64}, ddp::MatrixShape{33, 65},
                              ddp::MatrixShape{1, 1}, ddp::MatrixShape{0, 5});
  compare({{shape.count(), type}, {shape.columns, type}}, [&](Context& context, const auto& of) {
    context.run_any_float(ddp::cpu::bias_add, ddp::cu::bias_add, of[0], of[1], shape);
  });
  compare({{shape.count(), type}, {shape.columns, type, before(mode)}},
          [&](Context& context, const auto& of) {
            context.run_any_float(ddp::cpu::bias_grad, ddp::cu::bias_grad, of[0],
                                  GradientTarget{of[1], mode}, shape);
          });
  const ddp::DropoutMask mask{.probability = 0.3, .key = 1};
  compare({{shape.count(), type}, {shape.count(), type, before(mode)}},
          [&](Context& context, const auto& of) {
            context.run_any_float(ddp::cpu::dropout, ddp::cu::dropout, of[0],
                                  GradientTarget{of[1], mode}, mask, shape);
          });
  const ddp::TransposeShape transposed{2, shape.rows, 1, 3, shape.columns};
  compare({{transposed.count(), type}, {transposed.count(), type, before(mode)}},
          [&](Context& context, const auto& of) {
            context.run_any_float(ddp::cpu::transpose, ddp::cu::transpose, of[0],
                                  GradientTarget{of[1], mode}, transposed);
          });
}

TEST_CASE("CUDA kernels of channels take 16-bit types", "[gpu][any_float]") {
  const DType type = any_narrow();
  const WriteMode mode = any_mode();
  const auto shape = GENERATE(ChannelShape{3, 5, 64}, ChannelShape{70, 3, 49},
                              ChannelShape{33, 7, 1}, ChannelShape{2, 2, 4096});
  const std::size_t channels = shape.channels;
  const Operand x{shape.count(), type}, of_channels{channels, DType::kFloat32};
  compare({x, {channels, type}}, [&](Context& context, const auto& of) {
    context.run_any_float(ddp::cpu::channel_bias_add, ddp::cu::channel_bias_add, of[0], of[1],
                          shape);
  });
  compare({x, {channels, type, before(mode)}}, [&](Context& context, const auto& of) {
    context.run_any_float(ddp::cpu::channel_bias_grad, ddp::cu::channel_bias_grad, of[0],
                          GradientTarget{of[1], mode}, shape);
  });
  compare({x, {ddp::moments_count(channels), DType::kFloat64, Content::kPoison}},
          [&](Context& context, const auto& of) {
            context.run_any_float(ddp::cpu::channel_moments, ddp::cu::channel_moments, of[0], of[1],
                                  shape);
          });
  compare({x,
           of_channels,
           of_channels,
           of_channels,
           of_channels,
           {shape.count(), type, Content::kPoison}},
          [&](Context& context, const auto& of) {
            context.run_any_float(ddp::cpu::batch_norm_forward, ddp::cu::batch_norm_forward, of[0],
                                  ddp::BatchNormOperands{of[1], of[2], of[3]}, of[4], of[5], shape);
          });
  compare({x, x, of_channels, {2 * channels, DType::kFloat64, Content::kPoison}},
          [&](Context& context, const auto& of) {
            context.run_any_float(ddp::cpu::batch_norm_sums, ddp::cu::batch_norm_sums, of[0], of[1],
                                  of[2], of[3], shape);
          });
  for (const std::size_t terms : {0U, 2U}) {
    compare({x,
             x,
             of_channels,
             of_channels,
             of_channels,
             {terms * channels, DType::kFloat32},
             {shape.count(), type, before(mode)}},
            [&](Context& context, const auto& of) {
              context.run_any_float(ddp::cpu::batch_norm_grad_input, ddp::cu::batch_norm_grad_input,
                                    of[0], of[1], ddp::BatchNormOperands{of[2], of[3], of[4]},
                                    of[5], GradientTarget{of[6], mode}, shape);
            });
  }
}

TEST_CASE("CUDA kernels of pooling take 16-bit types", "[gpu][any_float]") {
  using ddp::Pool2dShape;
  const DType type = any_narrow();
  const WriteMode mode = any_mode();
  const auto shape =
      GENERATE(Pool2dShape{3, {16, 16}, {3, 3}, {2, 2}, {1, 1}},
               Pool2dShape{2, {7, 9}, {2, 2}, {2, 2}}, Pool2dShape{2, {9, 8}, {7, 7}, {1, 1}});
  compare({{shape.x_count(), type},
           {shape.y_count(), type, Content::kPoison},
           {shape.y_count(), DType::kInt32},
           {shape.y_count(), type},
           {shape.x_count(), type, before(mode)}},
          [&](Context& context, const auto& of) {
            context.run_any_float(ddp::cpu::max_pool2d_forward, ddp::cu::max_pool2d_forward, of[0],
                                  of[1], of[2], shape);
            context.run_any_float(ddp::cpu::max_pool2d_backward, ddp::cu::max_pool2d_backward,
                                  of[3], of[2], GradientTarget{of[4], mode}, shape);
          });
  compare_averages(shape, type, mode);
  compare_averages(ddp::AdaptivePool2dShape{3, shape.input, {1, 1}}, type, mode);
  compare_averages(ddp::AdaptivePool2dShape{3, shape.input, {3, 2}}, type, mode);
}
