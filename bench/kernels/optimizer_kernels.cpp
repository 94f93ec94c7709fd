// SPDX-License-Identifier: MIT
//
// Kernels over many tensors: a model of kTensors parameters, together as large as a large operand.
#include <span>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/adam.h"
#include "ddp/kernels/grad_norm.h"
#include "ddp/kernels/sgd.h"
#include "kernels/work.h"

namespace ddp::bench {
namespace {

using nn::Tensor;

constexpr std::size_t kTensors = 64;

Buffer part(const Tensor& all, std::size_t i) {
  const std::size_t count = all.count() / kTensors;
  return all.buffer().slice(i * count, count);
}

Work sgd_work(Workbench& bench) {
  const Tensor value = bench.large(), grad = bench.large(), momentum = bench.large();
  std::vector<SgdTensor> tensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    tensors.push_back({part(value, i), part(grad, i), part(momentum, i)});
  }
  const auto run = [=, &bench] {
    bench.context.run(cpu::sgd_step, cu::sgd_step, std::span<const SgdTensor>(tensors),
                      SgdStep{.learning_rate = 1e-3, .momentum = 0.9},
                      static_cast<const double*>(nullptr));
  };
  return {.kernel = "sgd_step", .traffic = {value, value, grad, momentum, momentum}, .run = run};
}

Work adam_work(Workbench& bench) {
  const Tensor value = bench.large(), grad = bench.large();
  const Tensor exp_avg = bench.large(), exp_avg_sq = bench.large();
  fill(exp_avg_sq.buffer(), 1, bench.context.stream());
  std::vector<AdamTensor> tensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    tensors.push_back({part(value, i), part(grad, i), part(exp_avg, i), part(exp_avg_sq, i)});
  }
  const auto run = [=, &bench] {
    bench.context.run(cpu::adam_step, cu::adam_step, std::span<const AdamTensor>(tensors),
                      AdamStep{}, static_cast<const double*>(nullptr));
  };
  return {.kernel = "adam_step",
          .traffic = {value, value, grad, exp_avg, exp_avg, exp_avg_sq, exp_avg_sq},
          .run = run};
}

Work grad_norm_work(Workbench& bench) {
  const Tensor grad = bench.large();
  std::vector<Buffer> grads;
  for (std::size_t i = 0; i < kTensors; ++i) grads.push_back(part(grad, i));
  const Tensor norm = bench.random(1, DType::kFloat64), scale = bench.random(1, DType::kFloat64);
  const Tensor partials = bench.random(grad_norm_partials(grads), DType::kFloat64);
  const auto run = [=, &bench] {
    bench.context.run(cpu::clip_grad_norm, cu::clip_grad_norm, std::span<const Buffer>(grads), 1.0,
                      static_cast<const double*>(nullptr),
                      ClippedGradients{norm.buffer(), scale.buffer(), partials.buffer()});
  };
  return {.kernel = "clip_grad_norm", .traffic = {grad}, .run = run};
}

}  // namespace

std::vector<MakeWork> optimizer_kernels() { return {sgd_work, adam_work, grad_norm_work}; }

}  // namespace ddp::bench
