// SPDX-License-Identifier: MIT
#include "evaluator.h"

#include <algorithm>
#include <array>
#include <span>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/data/data_loader.h"
#include "ddp/nn/tape.h"
#include "ddp/samplers/exact_sampler.h"
#include "factories.h"

namespace train {
namespace {

// Elements of a global batch: a thousand images of Fashion-MNIST.
constexpr std::int64_t kBatchElements = 784'000;

}  // namespace

Evaluator::Evaluator(const Options& options, const Task& task, ddp::ProcessGroup& group,
                     ddp::nn::Context& context)
    : options_(options), task_(task), group_(group), context_(context) {}

std::int64_t Evaluator::global_batch() const {
  return std::max<std::int64_t>(kBatchElements / task_.elements_of_sample(), 1);
}

Evaluation Evaluator::evaluate(ddp::nn::DistributedModule& model) {
  model.broadcast_buffers();
  model.eval();
  const ddp::ExactSampler sampler({.dataset_size = task_.test_set().size(),
                                   .world_size = group_.world_size(),
                                   .rank = group_.rank(),
                                   .global_batch_size = global_batch(),
                                   .shuffle = false});
  ddp::DataLoader loader(task_.test_set(), loader_options(options_, task_, group_));
  loader.start(sampler.plan({}));
  ddp::nn::Tape tape(context_, ddp::nn::Recording::kOff, options_.amp);
  std::array<double, ddp::kMaxMetrics> sums{};  // indexed by slot
  while (const auto batch = loader.next(context_.stream())) {
    if (batch->count == 0) continue;
    const ddp::nn::Variable output = model.forward(tape, task_.inputs(*batch));
    const ddp::nn::Variable loss = task_.objective().loss(tape, output, *batch);
    sums[kLossSlot] +=
        ddp::item(loss.buffer(), context_.stream()) * static_cast<double>(batch->count);
    std::size_t slot = kCountSlots;
    for (const ddp::nn::Tensor& count :
         task_.objective().counts(context_, output.value(), *batch)) {
      sums[slot++] += ddp::item(count.buffer(), context_.stream());
    }
  }
  model.train();
  ddp::all_reduce_on_host(group_, sums);
  const auto samples = static_cast<double>(task_.test_set().size());
  return {.loss = sums[kLossSlot] / samples,
          .score = task_.objective().score(std::span(sums).subspan(kCountSlots), samples)};
}

}  // namespace train
