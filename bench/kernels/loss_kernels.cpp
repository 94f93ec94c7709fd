// SPDX-License-Identifier: MIT
#include <cstdint>

#include "ddp/kernels/cross_entropy.h"
#include "ddp/kernels/mask_overlap.h"
#include "ddp/kernels/pointwise_loss.h"
#include "kernels/work.h"

namespace ddp::bench {
namespace {

using nn::Tensor;

constexpr std::size_t kClasses = 1024;

MatrixShape matrix_of(const Workbench& bench) { return {bench.elements / kClasses, kClasses}; }

Tensor labels_for(Workbench& bench) {
  std::vector<std::int64_t> labels(matrix_of(bench).rows);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int64_t>(i * 7 % kClasses);
  }
  return bench.context.from_host<std::int64_t>(labels, {labels.size()});
}

Work cross_entropy_forward_work(Workbench& bench) {
  const Tensor logits = bench.large(), probabilities = bench.large(), labels = labels_for(bench);
  const Tensor row_losses = bench.random(matrix_of(bench).rows), loss = bench.random(1);
  const auto run = [=, &bench] {
    bench.context.run(
        cpu::softmax_cross_entropy_forward, cu::softmax_cross_entropy_forward, logits.buffer(),
        labels.buffer(),
        CrossEntropyResult{probabilities.buffer(), row_losses.buffer(), loss.buffer()},
        matrix_of(bench), 0.0);
  };
  return {
      .kernel = "softmax_cross_entropy_forward", .traffic = {logits, probabilities}, .run = run};
}

Work cross_entropy_backward_work(Workbench& bench) {
  const Tensor probabilities = bench.large(), grad_logits = bench.large();
  const Tensor labels = labels_for(bench), grad_loss = bench.random(1);
  const auto run = [=, &bench] {
    bench.context.run(cpu::softmax_cross_entropy_backward, cu::softmax_cross_entropy_backward,
                      probabilities.buffer(), labels.buffer(), grad_loss.buffer(),
                      GradientTarget{grad_logits.buffer()}, matrix_of(bench), 0.0);
  };
  return {.kernel = "softmax_cross_entropy_backward",
          .traffic = {probabilities, grad_logits},
          .run = run};
}

Work count_correct_work(Workbench& bench) {
  const Tensor logits = bench.large(), labels = labels_for(bench);
  const Tensor count = bench.context.from_host<std::int64_t>(std::vector<std::int64_t>(1), {1});
  const auto run = [=, &bench] {
    bench.context.run(cpu::count_correct, cu::count_correct, logits.buffer(), labels.buffer(),
                      count.buffer(), matrix_of(bench), std::size_t{1});
  };
  return {.kernel = "count_correct", .traffic = {logits}, .run = run};
}

MakeWork loss_forward_work(const char* name, const PointwiseLoss& f) {
  return [=](Workbench& bench) {
    const Tensor x = bench.large(), target = bench.large();
    const Tensor row_losses = bench.random(matrix_of(bench).rows), loss = bench.random(1);
    const auto run = [=, &bench] {
      bench.context.run(cpu::pointwise_loss_forward, cu::pointwise_loss_forward, x.buffer(),
                        target.buffer(), PointwiseLossResult{row_losses.buffer(), loss.buffer()},
                        matrix_of(bench), f);
    };
    return Work{.kernel = name, .traffic = {x, target}, .run = run};
  };
}

MakeWork loss_backward_work(const char* name, const PointwiseLoss& f) {
  return [=](Workbench& bench) {
    const Tensor x = bench.large(), target = bench.large(), grad_x = bench.large();
    const Tensor grad_loss = bench.random(1);
    const auto run = [=, &bench] {
      bench.context.run(cpu::pointwise_loss_backward, cu::pointwise_loss_backward, x.buffer(),
                        target.buffer(), grad_loss.buffer(), GradientTarget{grad_x.buffer()},
                        matrix_of(bench), f);
    };
    return Work{.kernel = name, .traffic = {x, target, grad_x}, .run = run};
  };
}

Work mask_overlap_work(Workbench& bench) {
  const Tensor logits = bench.large(), target = bench.large();
  const Tensor counts = bench.context.from_host<std::int64_t>(std::vector<std::int64_t>(2), {2});
  const auto run = [=, &bench] {
    bench.context.run(cpu::mask_overlap, cu::mask_overlap, logits.buffer(), target.buffer(),
                      counts.buffer());
  };
  return {.kernel = "mask_overlap", .traffic = {logits, target}, .run = run};
}

}  // namespace

std::vector<MakeWork> loss_kernels() {
  constexpr PointwiseLoss kMse{PointwiseLossKind::kSquaredError};
  constexpr PointwiseLoss kBce{PointwiseLossKind::kBceWithLogits};
  return {cross_entropy_forward_work,
          cross_entropy_backward_work,
          count_correct_work,
          loss_forward_work("mse_forward", kMse),
          loss_backward_work("mse_backward", kMse),
          loss_forward_work("bce_with_logits_forward", kBce),
          loss_backward_work("bce_with_logits_backward", kBce),
          mask_overlap_work};
}

}  // namespace ddp::bench
