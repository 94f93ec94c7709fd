// SPDX-License-Identifier: MIT
//
// A GPT trains the same on any number of ranks. The weight of its tokens' embedding is used twice,
// at both ends of the model, so its gradient is the last one to be ready.
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ddp/nn/models/gpt.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/data_parallel.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/exact_training.h"
#include "support/groups.h"

using namespace ddp;
using test::expect;
using test::Tensors;

namespace {

constexpr std::size_t kTokens = 6;
constexpr std::int64_t kVocabulary = 13;

// Token i of a sample; the label of each token is the next one.
std::int64_t token(std::int64_t sample, std::size_t i) {
  const std::uint64_t bits = ddp::random_bits(1, static_cast<std::uint64_t>(sample), i);
  return static_cast<std::int64_t>(bits % kVocabulary);
}

nn::Tensor tokens_of(nn::Context& context, std::span<const std::int64_t> samples,
                     std::size_t first) {
  std::vector<std::int64_t> tokens;
  for (const std::int64_t sample : samples) {
    for (std::size_t i = 0; i < kTokens; ++i) tokens.push_back(token(sample, first + i));
  }
  return context.from_host(tokens, {samples.size(), kTokens});
}

nn::GptOptions options_with(double dropout) {
  return {.vocabulary = kVocabulary,
          .context = 8,
          .layers = 2,
          .heads = 2,
          .width = 12,
          .dropout = dropout};
}

// Returns the parameters after an epoch of 23 samples in batches of 4, of which the last has 3:
// with 4 ranks, one has none.
Tensors train(ProcessGroup& group, double dropout) {
  nn::Context context(group.device());
  nn::Gpt gpt({context, DType::kFloat64, 0}, options_with(dropout));
  nn::DistributedModule model(gpt, context, group.shared_from_this(),
                              {.nominal_samples = 4.0 / group.world_size()});
  nn::Sgd sgd(context, model.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  nn::Tape tape(context);
  ExactSampler sampler({.dataset_size = 23,
                        .world_size = group.world_size(),
                        .rank = group.rank(),
                        .global_batch_size = 4});
  const EpochPlan plan = sampler.next_epoch();
  for (std::int64_t step = 0; step < plan.steps(); ++step) {
    const std::vector<std::int64_t> samples = plan.batch(step);
    tape.set_random_key({.seed = 1,
                         .step = static_cast<std::uint64_t>(step),
                         .first_row = static_cast<std::uint64_t>(group.rank()),
                         .row_stride = static_cast<std::uint64_t>(group.world_size())});
    const nn::Variable logits = model.forward(tape, tokens_of(context, samples, 0));
    const nn::Variable loss =
        nn::softmax_cross_entropy(tape, logits, tokens_of(context, samples, 1));
    model.backward(tape, loss, static_cast<double>(samples.size()));
    sgd.step();
  }
  Tensors values;
  for (const nn::Parameter* parameter : gpt.parameters()) {
    values.push_back(context.to_host<double>(parameter->value()));
    std::vector<double> first = values.back();
    broadcast_on_host(group, buffer_of(first), 0);
    expect(first == values.back(), parameter->name() + " has the same bits on all ranks");
  }
  return values;
}

Tensors train_on(Backend backend, int world_size, double dropout) {
  Tensors values;
  test::run_groups(backend, world_size, [&](ProcessGroup& group) {
    const Tensors own = train(group, dropout);
    if (group.rank() == 0) values = own;
  });
  return values;
}

}  // namespace

TEST_CASE("a GPT, whose logits share a weight, is the same on 1, 2 and 4 ranks", "[exactness]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  const double dropout = GENERATE(0.0, 0.1);
  const Tensors alone = train_on(backend, 1, dropout);
  for (const int world_size : {2, 4}) {
    INFO(world_size << " ranks over " << to_string(backend));
    const Tensors parts = train_on(backend, world_size, dropout);
    CHECK(test::largest_relative_difference(alone, parts) <= 1e-12);
  }
}

TEST_CASE("DataParallel's loss of a GPT equals that on one device, as do its gradients",
          "[exactness]") {
  nn::Context context;
  const nn::Scope scope(context, DType::kFloat64, 0);
  const auto make = [](const nn::Scope& of) {
    return std::make_unique<nn::Gpt>(of, options_with(0.1));
  };
  const std::vector<std::int64_t> samples = {0, 1, 2, 3, 4};
  const nn::Tensor input = tokens_of(context, samples, 0), labels = tokens_of(context, samples, 1);
  const auto loss_of = [](nn::Tape& tape, const nn::Variable& logits, const nn::Tensor& targets) {
    return nn::softmax_cross_entropy(tape, logits, targets);
  };
  const auto gradients = [&](nn::Module& module, const auto& loss) {
    nn::Tape tape(context);
    tape.set_random_key({.seed = 1, .step = 2});
    tape.backward(loss(tape));
    Tensors all;
    for (nn::Parameter* parameter : module.parameters()) {
      all.push_back(context.to_host<double>(parameter->grad()));
    }
    return all;
  };
  const std::unique_ptr<nn::Gpt> alone = make(scope);
  nn::DataParallel parallel(context, scope, make,
                            {.device_ids = {kCpuDevice, kCpuDevice, kCpuDevice}});
  const Tensors expected = gradients(
      *alone, [&](nn::Tape& tape) { return loss_of(tape, alone->forward(tape, input), labels); });
  const Tensors parts = gradients(
      parallel, [&](nn::Tape& tape) { return parallel.loss(tape, input, labels, loss_of); });
  CHECK(test::largest_relative_difference(expected, parts) <= 1e-12);
}
