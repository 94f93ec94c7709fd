// SPDX-License-Identifier: MIT
#include "evaluator.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/data/data_loader.h"
#include "ddp/data/subset.h"
#include "ddp/samplers/exact_sampler.h"
#include "factories.h"
#include "stop_poll.h"

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

std::int64_t Evaluator::most_batches() const {
  const std::int64_t share = block() * group_.world_size();
  return (task_.test_set().size() + share - 1) / share;
}

std::optional<Evaluation> Evaluator::evaluate(ddp::nn::DistributedModule& model,
                                              const ddp::SignalGuard& signals) {
  model.broadcast_buffers();
  model.eval();
  std::optional<Sums> sums = sum(model, signals);
  model.train();
  if (!sums) return std::nullopt;
  ddp::all_reduce_on_host(group_, *sums);
  const auto samples = static_cast<double>(task_.test_set().size());
  return Evaluation{
      .loss = (*sums)[kLossSlot] / samples,
      .score = task_.objective().score(std::span(*sums).subspan(kCountSlots), samples)};
}

std::optional<Evaluator::Sums> Evaluator::sum(ddp::nn::DistributedModule& model,
                                              const ddp::SignalGuard& signals) {
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
  StopPoll poll(group_, signals);
  Sums sums{};
  // All ranks count to the same end, although the last block may be another's.
  for (std::int64_t left = most_batches(); left > 0; --left) {
    const auto batch = loader ? loader->next(context_.stream()) : std::nullopt;
    if (batch) add(*batch, model, tape, sums);
    if (left > 1 && poll.stop_requested()) return std::nullopt;
  }
  return sums;
}

void Evaluator::add(const ddp::Batch& batch, ddp::nn::DistributedModule& model, ddp::nn::Tape& tape,
                    Sums& sums) const {
  const ddp::nn::Variable output = model.forward(tape, task_.inputs(batch));
  const ddp::nn::Variable loss = task_.objective().loss(tape, output, batch);
  sums[kLossSlot] += ddp::item(loss.buffer(), context_.stream()) * static_cast<double>(batch.count);
  std::size_t slot = kCountSlots;
  for (const ddp::nn::Tensor& count : task_.objective().counts(context_, output.value(), batch)) {
    sums[slot++] += ddp::item(count.buffer(), context_.stream());
  }
}

}  // namespace train
