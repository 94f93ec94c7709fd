// SPDX-License-Identifier: MIT
//
// Training that gives the same model on any number of ranks: no sample is padded or dropped, and
// every mean is weighted by samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "ddp/nn/parallel/sync_batch_norm.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/differences.h"
#include "support/run_ranks.h"

namespace ddp::test {

// An epoch of MNIST-like noise. The global batches need not divide the epoch, nor the ranks the
// batches. Batch norms use the statistics of all ranks.
struct ExactEpoch {
  std::string model;
  std::int64_t samples = 103;
  std::int64_t global_batch = 8;
  std::size_t passes = 1;  // in a step, of unequal sizes
};

// The parameters of a model.
using Tensors = std::vector<std::vector<double>>;

// The largest difference of a tensor relative to its largest element; the maximum over all tensors.
inline double largest_relative_difference(const Tensors& a, const Tensors& b) {
  expect(a.size() == b.size(), "models of equally many tensors");
  double largest = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    largest = larger(largest, relative_difference(a[t], b[t]));
  }
  return largest;
}

// One rank's part of the training, in float or double.
template <class T>
class ExactTrainee {
 public:
  ExactTrainee(ProcessGroup& group, const ExactEpoch& epoch)
      : group_(group),
        epoch_(epoch),
        context_(group.device()),
        module_(nn::make_model(epoch.model, {context_, dtype_of<T>, 0})),
        model_(*module_, context_, group.shared_from_this(),
               {.nominal_samples = static_cast<double>(epoch.global_batch) / group.world_size()}),
        optimizer_(context_, module_->parameters(), {.learning_rate = 0.05, .momentum = 0.9}),
        tape_(context_) {
    (void)nn::convert_sync_batchnorm(*module_, group);
  }

  void train() {
    ExactSampler sampler({.dataset_size = epoch_.samples,
                          .world_size = group_.world_size(),
                          .rank = group_.rank(),
                          .global_batch_size = epoch_.global_batch});
    const EpochPlan plan = sampler.next_epoch();
    double seen = 0;
    for (std::int64_t step = 0; step < plan.steps(); ++step) {
      take_step(plan.batch(step));
      seen += model_.engine().summary().samples;
    }
    expect(seen == static_cast<double>(epoch_.samples), "every sample once");
  }

  [[nodiscard]] Tensors parameters() const {
    Tensors all;
    for (const nn::Parameter* parameter : module_->parameters()) {
      const std::vector<T> own = context_.template to_host<T>(parameter->value());
      all.emplace_back(own.begin(), own.end());
    }
    return all;
  }

 private:
  static constexpr std::size_t kSide = 28;

  void take_step(const std::vector<std::int64_t>& indices) {
    const std::size_t passes = epoch_.passes;
    model_.engine().accumulate(static_cast<int>(passes));
    for (std::size_t pass = 0; pass < passes; ++pass) {
      // The first pass is the smallest, and may be empty.
      const std::size_t begin = indices.size() * pass * pass / (passes * passes);
      const std::size_t end = indices.size() * (pass + 1) * (pass + 1) / (passes * passes);
      backward(std::span(indices).subspan(begin, end - begin));
    }
    model_.step(optimizer_);
  }

  void backward(std::span<const std::int64_t> indices) {
    const nn::Variable logits = module_->forward(tape_, inputs_of(indices));
    const nn::Variable loss = nn::softmax_cross_entropy(tape_, logits, labels_of(indices));
    model_.backward(tape_, loss, static_cast<double>(indices.size()));
  }

  nn::Tensor inputs_of(std::span<const std::int64_t> indices) {
    std::vector<T> pixels;
    for (const std::int64_t sample : indices) {
      for (std::size_t i = 0; i < kSide * kSide; ++i) {
        const double unit = ddp::random_unit(1, static_cast<std::uint64_t>(sample), i);
        pixels.push_back(static_cast<T>(unit - 0.5));
      }
    }
    return context_.template from_host<T>(pixels, {indices.size(), 1, kSide, kSide});
  }

  nn::Tensor labels_of(std::span<const std::int64_t> indices) {
    std::vector<std::int64_t> labels;
    for (const std::int64_t sample : indices) labels.push_back(sample * 7 % 10);
    return context_.template from_host<std::int64_t>(labels, {indices.size()});
  }

  ProcessGroup& group_;
  ExactEpoch epoch_;
  nn::Context context_;
  std::unique_ptr<nn::Module> module_;
  nn::DistributedModule model_;
  nn::Sgd optimizer_;
  nn::Tape tape_;
};

// Returns the final parameters, after checking that they are bit-identical on all ranks.
template <class T>
[[nodiscard]] Tensors train_exactly(ProcessGroup& group, const ExactEpoch& epoch) {
  ExactTrainee<T> trainee(group, epoch);
  trainee.train();
  const Tensors own = trainee.parameters();
  Tensors first = own;
  for (std::vector<double>& tensor : first) broadcast_on_host(group, buffer_of(tensor), 0);
  expect(first == own, "the same bits on all ranks");
  return own;
}

}  // namespace ddp::test
