// SPDX-License-Identifier: MIT
#include "evaluator.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/data/data_loader.h"
#include "ddp/data/subset.h"
#include "ddp/nn/tape.h"
#include "ddp/samplers/exact_sampler.h"
#include "factories.h"

namespace train {
namespace {

// The test set is evaluated in about this many blocks, so that even many ranks get about equal
// parts. There are more if a block would have more than kBlockElements.
constexpr std::int64_t kBlocks = 256;
constexpr std::int64_t kBlockElements = 784'000;  // a thousand images of Fashion-MNIST

// This rank's blocks: every `world_size`-th one. A block is a batch on any number of ranks, since
// logits are rounded differently in a batch of another size, and two that are nearly equal could
// change places. ExactSampler alone would cut the last blocks into even shares.
ddp::Subset blocks_of(const ddp::ProcessGroup& group, const ddp::Dataset& dataset,
                      std::int64_t block) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    if (i / block % group.world_size() == group.rank()) samples.push_back(i);
  }
  return {dataset, std::move(samples)};
}

}  // namespace

Evaluator::Evaluator(const Options& options, const Task& task, ddp::ProcessGroup& group,
                     ddp::nn::Context& context)
    : options_(options), task_(task), group_(group), context_(context) {}

std::int64_t Evaluator::block() const {
  const std::int64_t most = kBlockElements / task_.elements_of_sample();
  return std::max<std::int64_t>(std::min(task_.test_set().size() / kBlocks, most), 1);
}

Evaluation Evaluator::evaluate(ddp::nn::DistributedModule& model) {
  model.broadcast_buffers();
  model.eval();
  const ddp::Subset own = blocks_of(group_, task_.test_set(), block());
  const ddp::ExactSampler sampler({.dataset_size = own.size(),
                                   .world_size = 1,
                                   .rank = 0,
                                   .global_batch_size = block(),
                                   .shuffle = false});
  std::optional<ddp::DataLoader> loader;
  if (own.size() > 0) {  // there may be fewer blocks than ranks
    loader.emplace(own, loader_options(options_, task_, group_));
    loader->start(sampler.plan({}));
  }
  ddp::nn::Tape tape(context_, ddp::nn::Recording::kOff, options_.amp);
  std::array<double, ddp::kMaxMetrics> sums{};  // indexed by slot
  while (const auto batch = loader ? loader->next(context_.stream()) : std::nullopt) {
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
