// SPDX-License-Identifier: MIT
#include "ddp/kernels/bias.h"
#include "ddp/kernels/binary.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/columns.h"
#include "ddp/kernels/dropout.h"
#include "ddp/kernels/unary.h"
#include "kernels/work.h"

namespace ddp::bench {
namespace {

using nn::Tensor;

constexpr std::size_t kColumns = 1024;

MatrixShape matrix_of(const Workbench& bench) { return {bench.elements / kColumns, kColumns}; }

ChannelShape channels_of(const Workbench& bench) {
  return {bench.images(), Workbench::kChannels, Workbench::kSide * Workbench::kSide};
}

MakeWork forward_work(const char* kernel, UnaryKind kind, DType dtype = DType::kFloat32) {
  return [=](Workbench& bench) {
    const Tensor x = bench.large(dtype), y = bench.large(dtype);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::unary_forward, cu::unary_forward, x.buffer(), y.buffer(),
                                  UnaryFunction{kind});
    };
    return Work{.kernel = kernel, .dtype = dtype, .traffic = {x, y}, .run = run};
  };
}

// From y and grad_y.
MakeWork backward_work(const char* kernel, UnaryKind kind, DType dtype = DType::kFloat32) {
  return [=](Workbench& bench) {
    const Tensor y = bench.large(dtype), grad_y = bench.large(dtype), grad_x = bench.large(dtype);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::unary_backward, cu::unary_backward, y.buffer(),
                                  grad_y.buffer(), GradientTarget{grad_x.buffer()},
                                  UnaryFunction{kind});
    };
    return Work{.kernel = kernel, .dtype = dtype, .traffic = {y, grad_y, grad_x}, .run = run};
  };
}

MakeWork add_work(DType dtype) {
  return [dtype](Workbench& bench) {
    const Tensor a = bench.large(dtype), b = bench.large(dtype), y = bench.large(dtype);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::binary, cu::binary, a.buffer(), b.buffer(),
                                  GradientTarget{y.buffer()}, BinaryFunction{BinaryKind::kSum});
    };
    return Work{.kernel = "add", .dtype = dtype, .traffic = {a, b, y}, .run = run};
  };
}

Work dropout_work(Workbench& bench) {
  const Tensor x = bench.large(), y = bench.large();
  const auto run = [=, &bench] {
    bench.context.run(cpu::dropout, cu::dropout, x.buffer(), GradientTarget{y.buffer()},
                      DropoutMask{.key = 7}, matrix_of(bench));
  };
  return {.kernel = "dropout", .traffic = {x, y}, .run = run};
}

Work bias_add_work(Workbench& bench) {
  const Tensor y = bench.large(), bias = bench.random(kColumns);
  const auto run = [=, &bench] {
    bench.context.run(cpu::bias_add, cu::bias_add, y.buffer(), bias.buffer(), matrix_of(bench));
  };
  return {.kernel = "bias_add", .traffic = {y, y}, .run = run};
}

MakeWork bias_grad_work(DType dtype) {
  return [dtype](Workbench& bench) {
    const Tensor grad_y = bench.large(dtype), grad_bias = bench.random(kColumns, dtype);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::bias_grad, cu::bias_grad, grad_y.buffer(),
                                  GradientTarget{grad_bias.buffer()}, matrix_of(bench));
    };
    return Work{.kernel = "bias_grad", .dtype = dtype, .traffic = {grad_y}, .run = run};
  };
}

Work channel_bias_add_work(Workbench& bench) {
  const Tensor y = bench.large(), bias = bench.random(Workbench::kChannels);
  const auto run = [=, &bench] {
    bench.context.run(cpu::channel_bias_add, cu::channel_bias_add, y.buffer(), bias.buffer(),
                      channels_of(bench));
  };
  return {.kernel = "channel_bias_add", .traffic = {y, y}, .run = run};
}

Work channel_bias_grad_work(Workbench& bench) {
  const Tensor grad_y = bench.large(), grad_bias = bench.random(Workbench::kChannels);
  const auto run = [=, &bench] {
    bench.context.run(cpu::channel_bias_grad, cu::channel_bias_grad, grad_y.buffer(),
                      GradientTarget{grad_bias.buffer()}, channels_of(bench));
  };
  return {.kernel = "channel_bias_grad", .traffic = {grad_y}, .run = run};
}

Work put_columns_work(Workbench& bench) {
  const Tensor part = bench.random(bench.elements / 2), whole = bench.large();
  const auto run = [=, &bench] {
    bench.context.run(cpu::put_columns, cu::put_columns, part.buffer(),
                      GradientTarget{whole.buffer()},
                      ColumnRange{matrix_of(bench), 0, kColumns / 2});
  };
  return {.kernel = "put_columns", .traffic = {part, part}, .run = run};
}

}  // namespace

std::vector<MakeWork> pointwise_kernels() {
  return {add_work(DType::kFloat32),
          add_work(DType::kBFloat16),
          forward_work("relu_forward", UnaryKind::kRelu),
          forward_work("relu_forward", UnaryKind::kRelu, DType::kBFloat16),
          backward_work("relu_backward", UnaryKind::kRelu),
          backward_work("relu_backward", UnaryKind::kRelu, DType::kBFloat16),
          forward_work("sigmoid_forward", UnaryKind::kSigmoid),
          backward_work("sigmoid_backward", UnaryKind::kSigmoid),
          dropout_work,
          bias_add_work,
          bias_grad_work(DType::kFloat32),
          bias_grad_work(DType::kBFloat16),
          channel_bias_add_work,
          channel_bias_grad_work,
          put_columns_work};
}

}  // namespace ddp::bench
