// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "ddp/kernels/dropout.h"
#include "ddp/nn/modules/dropout.h"
#include "ddp/nn/ops.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/gradients.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using ddp::buffer_of;
using ddp::DType;
using ddp::WriteMode;
using ddp::test::error_of;
using Doubles = std::vector<double>;

constexpr std::size_t kColumns = 7;

// The layer's output for an input of ones: 0 or 1 / (1 - p) in each element.
Doubles dropped(Context& context, Dropout& layer, const RandomKey& key, std::size_t rows) {
  Tape tape(context, Recording::kOff);
  tape.set_random_key(key);
  const Tensor ones = context.from_host<double>(Doubles(rows * kColumns, 1.0), {rows, kColumns});
  return context.to_host<double>(layer.forward(tape, ones).value());
}

struct Layers {
  Context context;
  Scope scope{context, DType::kFloat64, 0};
  Dropout first{scope.child("first"), 0.3};
  Dropout second{scope.child("second"), 0.3};
};

}  // namespace

TEST_CASE("1, 2 and 3 ranks drop the same elements of a global batch", "[dropout]") {
  constexpr std::int64_t kSamples = 29, kGlobalBatch = 8;  // the last batch has 5 samples
  Layers layers;
  const int world_size = GENERATE(1, 2, 3);
  for (int rank = 0; rank < world_size; ++rank) {
    const ddp::ExactSamplerOptions whole_options{
        .dataset_size = kSamples, .world_size = 1, .rank = 0, .global_batch_size = kGlobalBatch};
    ddp::ExactSamplerOptions options = whole_options;
    options.world_size = world_size;
    options.rank = rank;
    const ddp::EpochPlan whole = ddp::ExactSampler(whole_options).next_epoch();
    const ddp::EpochPlan plan = ddp::ExactSampler(options).next_epoch();
    for (std::int64_t step = 0; step < plan.steps(); ++step) {
      const auto global = whole.batch(step), own = plan.batch(step);
      const auto number = static_cast<std::uint64_t>(step);
      const Doubles expected =
          dropped(layers.context, layers.first, {.seed = 4, .step = number}, global.size());
      const RandomKey key{.seed = 4,
                          .step = number,
                          .first_row = static_cast<std::uint64_t>(rank),
                          .row_stride = static_cast<std::uint64_t>(world_size)};
      const Doubles part = dropped(layers.context, layers.first, key, own.size());
      for (std::size_t row = 0; row < own.size(); ++row) {
        // The sample's position in the global batch, found by its index in the dataset.
        const auto at = std::ranges::find(global, own[row]) - global.begin();
        CHECK(std::equal(part.begin() + static_cast<std::ptrdiff_t>(row * kColumns),
                         part.begin() + static_cast<std::ptrdiff_t>((row + 1) * kColumns),
                         expected.begin() + at * static_cast<std::ptrdiff_t>(kColumns)));
      }
    }
  }
}

TEST_CASE("dropout keeps the promised fraction of elements and their mean", "[dropout]") {
  Layers layers;
  const Doubles y = dropped(layers.context, layers.first, {.seed = 1}, 10'000);
  const auto n = static_cast<double>(y.size());
  const auto zeros = static_cast<double>(std::ranges::count(y, 0.0));
  CHECK(std::abs(zeros / n - 0.3) < 5 * std::sqrt(0.3 * 0.7 / n));  // five standard deviations
  CHECK(std::ranges::count(y, 1 / 0.7) == static_cast<std::ptrdiff_t>(n - zeros));
}

TEST_CASE("dropout is independent across seeds, steps, layers, rows and columns", "[dropout]") {
  Layers layers;
  constexpr std::size_t kRows = 2000;
  const RandomKey key{.seed = 3, .step = 5};
  const Doubles base = dropped(layers.context, layers.first, key, kRows);
  const auto shifted = [&](std::size_t by) {
    Doubles other(base.begin() + static_cast<std::ptrdiff_t>(by), base.end());
    other.insert(other.end(), base.begin(), base.begin() + static_cast<std::ptrdiff_t>(by));
    return other;
  };
  for (const Doubles& other : {dropped(layers.context, layers.second, key, kRows),
                               dropped(layers.context, layers.first, {.seed = 4, .step = 5}, kRows),
                               dropped(layers.context, layers.first, {.seed = 3, .step = 6}, kRows),
                               shifted(1), shifted(2), shifted(kColumns)}) {
    double both = 0;
    for (std::size_t i = 0; i < base.size(); ++i) both += base[i] == 0 && other[i] == 0 ? 1 : 0;
    const auto n = static_cast<double>(base.size());
    CHECK(std::abs(both / n - 0.09) < 5 * std::sqrt(0.09 * 0.91 / n));
  }
}

TEST_CASE("the gradient of dropout is zero where the output was dropped", "[dropout]") {
  Layers layers;
  Parameter x = layers.scope.uniform("x", {4, 5}, 1);
  const ddp::test::Loss loss = [&](Tape& tape) {
    tape.set_random_key({.seed = 9, .step = 2, .first_row = 1, .row_stride = 3});
    const Tensor labels = ddp::test::labels_for(layers.context, 4, 5);
    return softmax_cross_entropy(tape, layers.first.forward(tape, tape.watch(x)), labels);
  };
  ddp::test::check_gradients(layers.context, loss, {&x});
}

TEST_CASE("probabilities of 0 and 1 keep and drop everything, even NaN", "[dropout]") {
  Doubles x = {1, std::nan(""), 3}, y = {5, 5, 5};
  ddp::cpu::dropout(buffer_of(x), {buffer_of(y)}, {.probability = 1}, {1, 3});
  CHECK(y == Doubles{0, 0, 0});
  x[1] = 2;
  ddp::cpu::dropout(buffer_of(x), {buffer_of(y), WriteMode::kAccumulate}, {.probability = 0},
                    {1, 3});
  CHECK(y == x);
}

TEST_CASE("dropout does nothing in evaluation, and needs a fresh key in training", "[dropout]") {
  Layers layers;
  Tape tape(layers.context);
  Parameter x = layers.scope.uniform("x", {1, 1}, 1);
  const auto forward = [&] { return layers.first.forward(tape, tape.watch(x)); };
  const std::string complaint =
      "[nn] a layer makes random choices, but the tape has no key: call set_random_key() before "
      "each forward pass";
  CHECK(error_of([&] { static_cast<void>(forward()); }) == complaint);
  tape.set_random_key({});
  tape.backward(forward());
  CHECK(error_of([&] { static_cast<void>(forward()); }) == complaint);
  Tape unrecorded(layers.context, Recording::kOff);
  CHECK_THAT(error_of([&] { static_cast<void>(layers.first.forward(unrecorded, x.value())); }),
             Catch::Contains("does not record: to evaluate, call the model's eval() first"));
  layers.first.train(false);
  CHECK(forward().value().buffer().data == x.value().buffer().data);
  CHECK(error_of([&] { Dropout(layers.scope.child("d"), 1.5); }) ==
        "[nn] Dropout d: the probability is 1.500000, expected 0 to 1");
}

TEST_CASE("ranks draw the rows of the noise that one rank draws", "[dropout]") {
  Context context;
  Tape tape(context, Recording::kOff);
  const auto draw = [&](const RandomKey& key, std::size_t rows, const char* name = "z") {
    tape.set_random_key(key);
    return context.to_host<double>(normal(tape, {rows, kColumns}, DType::kFloat64, name));
  };
  const Doubles whole = draw({.seed = 4, .step = 2}, 5);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Doubles own = draw({.seed = 4, .step = 2, .first_row = rank, .row_stride = 2}, 2);
    for (std::size_t i = 0; i < own.size(); ++i) {
      CHECK(own[i] == whole[(rank + i / kColumns * 2) * kColumns + i % kColumns]);
    }
  }
  CHECK(draw({.seed = 4, .step = 3}, 5) != whole);
  CHECK(draw({.seed = 5, .step = 2}, 5) != whole);
  CHECK(draw({.seed = 4, .step = 2}, 5, "other") != whole);
}

TEST_CASE("noise has the moments of the standard normal distribution", "[dropout]") {
  Context context;
  Tape tape(context, Recording::kOff);
  tape.set_random_key({});
  const Tensor noise = normal(tape, {2000, 500}, DType::kFloat32, "z");
  const double expected[] = {0, 1, 0, 3};
  for (int power = 1; power <= 4; ++power) {
    double sum = 0;
    for (const float value : noise.buffer().as<float>()) sum += std::pow(value, power);
    CHECK(sum / 1e6 == Approx(expected[power - 1]).margin(0.04));
  }
  CHECK(normal(tape, {0, 3}, DType::kFloat32, "z").count() == 0);
}
