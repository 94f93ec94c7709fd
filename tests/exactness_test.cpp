// SPDX-License-Identifier: MIT
//
// A dataset that nothing divides evenly gives the same model for any number of ranks: nothing is
// padded, nothing dropped, and every mean is weighted by samples.
#include <catch2/catch.hpp>

#include <cmath>
#include <numeric>
#include <vector>

#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "ddp/nn/random.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/groups.h"

using namespace ddp;
using nn::Tensor;

namespace {

constexpr std::int64_t kSamples = 103;
constexpr std::int64_t kGlobalBatch = 8;
constexpr std::size_t kPixels = 784;

Tensor inputs_of(nn::Context& context, std::span<const std::int64_t> indices) {
  std::vector<double> pixels;
  for (const std::int64_t sample : indices) {
    for (std::size_t i = 0; i < kPixels; ++i) {
      pixels.push_back(nn::random_unit(1, static_cast<std::uint64_t>(sample), i) - 0.5);
    }
  }
  return context.from_host<double>(pixels, {indices.size(), kPixels});
}

Tensor labels_of(nn::Context& context, std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> labels;
  for (const std::int64_t sample : indices) labels.push_back(sample * 7 % 10);
  return context.from_host<std::int64_t>(labels, {indices.size()});
}

// The parameters after one epoch on so many ranks, as rank 0 has them; each step in passes of
// unequal size.
std::vector<std::vector<double>> train(const std::string& name, int world_size,
                                       std::size_t passes = 1) {
  std::vector<std::vector<double>> parameters;
  test::run_groups(Backend::kShm, world_size, [&](ProcessGroup& group) {
    nn::Context context;
    const auto module = nn::make_model(name, {context, DType::kFloat64, 0});
    nn::DistributedModule model(*module, context, group.shared_from_this(),
                                {.nominal_samples = 1.0 * kGlobalBatch / world_size});
    nn::Sgd optimizer(context, module->parameters(), {.learning_rate = 0.05, .momentum = 0.9});
    nn::Tape tape(context);
    ExactSampler sampler({.dataset_size = kSamples,
                          .world_size = world_size,
                          .rank = group.rank(),
                          .global_batch_size = kGlobalBatch});
    const EpochPlan plan = sampler.next_epoch();
    double seen = 0;
    for (std::int64_t step = 0; step < plan.steps(); ++step) {
      const auto indices = plan.batch(step);
      model.engine().accumulate(static_cast<int>(passes));
      for (std::size_t pass = 0; pass < passes; ++pass) {
        // The first pass is the smallest, and may be empty.
        const std::size_t begin = indices.size() * pass * pass / (passes * passes);
        const std::size_t end = indices.size() * (pass + 1) * (pass + 1) / (passes * passes);
        const auto part = std::span(indices).subspan(begin, end - begin);
        const nn::Variable logits = module->forward(tape, inputs_of(context, part));
        const nn::Variable loss = nn::softmax_cross_entropy(tape, logits, labels_of(context, part));
        model.backward(tape, loss, static_cast<double>(part.size()));
      }
      model.step(optimizer);
      seen += model.engine().summary().samples;
    }
    test::expect(seen == kSamples, "every sample once, not " + std::to_string(seen));
    if (group.rank() != 0) return;
    for (const nn::Parameter* parameter : module->parameters()) {
      parameters.push_back(context.to_host<double>(parameter->value()));
    }
  });
  return parameters;
}

using Tensors = std::vector<std::vector<double>>;

// Of a tensor's largest difference to its largest element.
double largest_relative_difference(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    double difference = 0;
    double magnitude = 0;
    for (std::size_t i = 0; i < a[t].size(); ++i) {
      magnitude = std::max(magnitude, std::abs(a[t][i]));
      difference = std::max(difference, std::abs(a[t][i] - b[t].at(i)));
    }
    largest = std::max(largest, difference / magnitude);
  }
  return largest;
}

}  // namespace

TEST_CASE("103 samples in batches of 8 give the same model on 1 to 4 ranks", "[exactness]") {
  for (const char* name : {"mlp", "lenet5"}) {
    const Tensors alone = train(name, 1);
    for (const int world_size : {2, 3, 4}) {
      INFO(name << " on " << world_size << " ranks");
      CHECK(largest_relative_difference(alone, train(name, world_size)) <= 1e-12);
    }
  }
}

TEST_CASE("a step of several passes equals a step of one", "[exactness]") {
  for (const char* name : {"mlp", "lenet5"}) {
    const Tensors whole = train(name, 1);
    for (const int world_size : {1, 2, 3}) {
      INFO(name << " on " << world_size << " ranks");
      CHECK(largest_relative_difference(whole, train(name, world_size, 3)) <= 1e-12);
    }
  }
}
