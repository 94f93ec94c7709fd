// SPDX-License-Identifier: MIT
//
// Kernels on the activations of a transformer: as many tokens of kWidth elements as fit into a
// large operand, and attention weights of kWidth x kWidth.
#include "ddp/kernels/embedding.h"
#include "ddp/kernels/layer_norm.h"
#include "ddp/kernels/softmax.h"
#include "ddp/kernels/transpose.h"
#include "kernels/work.h"

namespace ddp::bench {
namespace {

using nn::Tensor;

constexpr std::size_t kWidth = 1024;
constexpr std::size_t kHeads = 16;

MatrixShape tokens_of(const Workbench& bench) { return {bench.elements / kWidth, kWidth}; }

Work layer_norm_forward_work(Workbench& bench) {
  const Tensor x = bench.large(), y = bench.large();
  const Tensor weight = bench.random(kWidth), bias = bench.random(kWidth);
  const Tensor mean = bench.random(tokens_of(bench).rows),
               rstd = bench.random(tokens_of(bench).rows);
  const auto run = [=, &bench] {
    bench.context.run(cpu::layer_norm_forward, cu::layer_norm_forward, x.buffer(), weight.buffer(),
                      bias.buffer(), 1e-5,
                      LayerNormResult{y.buffer(), mean.buffer(), rstd.buffer()}, tokens_of(bench));
  };
  return {.kernel = "layer_norm_forward", .traffic = {x, y}, .run = run};
}

// x and its statistics, which all gradients need.
struct Normalised {
  explicit Normalised(Workbench& bench)
      : x(bench.large()),
        mean(bench.random(tokens_of(bench).rows)),
        rstd(bench.random(tokens_of(bench).rows)) {}

  [[nodiscard]] LayerNormOperands operands() const {
    return {x.buffer(), mean.buffer(), rstd.buffer()};
  }

  Tensor x, mean, rstd;
};

Work layer_norm_grad_input_work(Workbench& bench) {
  const Normalised of(bench);
  const Tensor weight = bench.random(kWidth), grad_y = bench.large(), grad_x = bench.large();
  const auto run = [=, &bench] {
    bench.context.run(cpu::layer_norm_grad_input, cu::layer_norm_grad_input, of.operands(),
                      weight.buffer(), grad_y.buffer(), GradientTarget{grad_x.buffer()},
                      tokens_of(bench));
  };
  return {.kernel = "layer_norm_grad_input", .traffic = {of.x, grad_y, grad_x}, .run = run};
}

Work layer_norm_grad_weight_work(Workbench& bench) {
  const Normalised of(bench);
  const Tensor grad_y = bench.large(), grad_weight = bench.random(kWidth);
  const auto run = [=, &bench] {
    bench.context.run(cpu::layer_norm_grad_weight, cu::layer_norm_grad_weight, of.operands(),
                      grad_y.buffer(), GradientTarget{grad_weight.buffer()}, tokens_of(bench));
  };
  return {.kernel = "layer_norm_grad_weight", .traffic = {of.x, grad_y}, .run = run};
}

MakeWork softmax_forward_work(const char* kernel, SoftmaxMask mask) {
  return [=](Workbench& bench) {
    const Tensor x = bench.large(), y = bench.large();
    const auto run = [=, &bench] {
      bench.context.run(cpu::softmax_forward, cu::softmax_forward, x.buffer(), y.buffer(),
                        tokens_of(bench), mask);
    };
    return Work{.kernel = kernel, .traffic = {x, y}, .run = run};
  };
}

Work softmax_backward_work(Workbench& bench) {
  const Tensor y = bench.large(), grad_y = bench.large(), grad_x = bench.large();
  const auto run = [=, &bench] {
    bench.context.run(cpu::softmax_backward, cu::softmax_backward, y.buffer(), grad_y.buffer(),
                      GradientTarget{grad_x.buffer()}, tokens_of(bench));
  };
  return {.kernel = "softmax_backward", .traffic = {y, grad_y, grad_x}, .run = run};
}

Work log_softmax_forward_work(Workbench& bench) {
  const Tensor x = bench.large(), y = bench.large();
  const auto run = [=, &bench] {
    bench.context.run(cpu::log_softmax_forward, cu::log_softmax_forward, x.buffer(), y.buffer(),
                      tokens_of(bench));
  };
  return {.kernel = "log_softmax_forward", .traffic = {x, y}, .run = run};
}

Work log_softmax_backward_work(Workbench& bench) {
  const Tensor y = bench.large(), grad_y = bench.large(), grad_x = bench.large();
  const auto run = [=, &bench] {
    bench.context.run(cpu::log_softmax_backward, cu::log_softmax_backward, y.buffer(),
                      grad_y.buffer(), GradientTarget{grad_x.buffer()}, tokens_of(bench));
  };
  return {.kernel = "log_softmax_backward", .traffic = {y, grad_y, grad_x}, .run = run};
}

// The table is a large operand. An eighth of its rows have positions, some of them several.
Tensor indices_for(Workbench& bench) {
  const std::size_t rows = tokens_of(bench).rows;
  std::vector<std::int64_t> indices(rows / 8);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<std::int64_t>(i * i % rows);
  }
  return bench.context.from_host(indices, {indices.size()});
}

Work embedding_forward_work(Workbench& bench) {
  const Tensor table = bench.large(), indices = indices_for(bench);
  const Tensor y = bench.random(indices.count() * kWidth);
  const auto run = [=, &bench] {
    bench.context.run(cpu::embedding_forward, cu::embedding_forward, table.buffer(),
                      indices.buffer(), y.buffer(), tokens_of(bench));
  };
  return {.kernel = "embedding_forward", .traffic = {y, y}, .run = run};
}

Work embedding_backward_work(Workbench& bench) {
  const Tensor grad_table = bench.large(), indices = indices_for(bench);
  const Tensor grad_y = bench.random(indices.count() * kWidth);
  const auto run = [=, &bench] {
    bench.context.run(cpu::embedding_backward, cu::embedding_backward, grad_y.buffer(),
                      indices.buffer(), GradientTarget{grad_table.buffer()}, tokens_of(bench));
  };
  return {.kernel = "embedding_backward", .traffic = {grad_y, grad_table}, .run = run};
}

// A small table, whose rows have many positions each.
Work small_embedding_backward_work(Workbench& bench) {
  constexpr std::size_t kRows = 256, kPositions = 16384;
  std::vector<std::int64_t> values(kPositions);
  for (std::size_t i = 0; i < kPositions; ++i) values[i] = static_cast<std::int64_t>(i * i % kRows);
  const Tensor indices = bench.context.from_host(values, {kPositions});
  const Tensor grad_table = bench.random(kRows * kWidth),
               grad_y = bench.random(kPositions * kWidth);
  const auto run = [=, &bench] {
    bench.context.run(cpu::embedding_backward, cu::embedding_backward, grad_y.buffer(),
                      indices.buffer(), GradientTarget{grad_table.buffer()},
                      MatrixShape{kRows, kWidth});
  };
  return {.kernel = "embedding_backward, 256 rows", .traffic = {grad_y, grad_table}, .run = run};
}

// Exchanges positions and heads, for samples of kWidth tokens.
Work transpose_work(Workbench& bench) {
  const Tensor x = bench.large(), y = bench.large();
  const TransposeShape shape{.outer = bench.elements / (kWidth * kWidth),
                             .first = kWidth,
                             .second = kHeads,
                             .inner = kWidth / kHeads};
  const auto run = [=, &bench] {
    bench.context.run(cpu::transpose, cu::transpose, x.buffer(), GradientTarget{y.buffer()}, shape);
  };
  return {.kernel = "transpose", .traffic = {x, y}, .run = run};
}

}  // namespace

std::vector<MakeWork> transformer_kernels() {
  return {layer_norm_forward_work,
          layer_norm_grad_input_work,
          layer_norm_grad_weight_work,
          softmax_forward_work("softmax_forward", SoftmaxMask::kNone),
          softmax_forward_work("softmax_forward, causal", SoftmaxMask::kCausal),
          softmax_backward_work,
          log_softmax_forward_work,
          log_softmax_backward_work,
          embedding_forward_work,
          embedding_backward_work,
          small_embedding_backward_work,
          transpose_work};
}

}  // namespace ddp::bench
