// SPDX-License-Identifier: MIT
//
// When and how optimizers take the gradients of a DistributedModule.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ddp/nn/modules/linear.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "support/branches_trainee.h"
#include "support/groups.h"
#include "support/two_layers.h"

using namespace ddp;
using nn::Tensor;
using test::error_of;
using test::expect;
using test::kClasses;
using test::kFeatures;
using Trainee = test::BranchesTrainee;

namespace {

// Who calls the optimizer: the model or the test.
enum class Caller { kModel, kOptimizer };

}  // namespace

TEST_CASE("optimizer.step() steps with the mean over all ranks, as model.step(optimizer) does",
          "[module]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  const auto train = [backend](Caller caller) {
    std::vector<double> values;
    test::run_groups(backend, 3, [&](ProcessGroup& group) {
      Trainee trainee(group.shared_from_this(),
                      {.unused = UnusedParameters::kZero, .non_finite = NonFinite::kSkip});
      for (const double scale : {1.0, std::numeric_limits<double>::quiet_NaN(), 1.0}) {
        trainee.backward(2 * static_cast<std::size_t>(group.rank()), 2, true, scale);
        (void)trainee.model.clip_grad_norm(0.5);
        if (caller == Caller::kModel) trainee.model.step(trainee.optimizer);
        if (caller == Caller::kOptimizer) trainee.optimizer.step();
      }
      expect(trainee.model.engine().statistics().skipped_steps == 1, "the bad one is skipped");
      if (group.rank() == 0) values = trainee.values();
    });
    return values;
  };
  const std::vector<double> by_optimizer = train(Caller::kOptimizer);
  CHECK(by_optimizer == train(Caller::kModel));
  CHECK(std::isfinite(by_optimizer.front()));
}

// As loops on raw buffers do.
TEST_CASE("the gradients of a step that must not be taken need not be offered to an optimizer",
          "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(),
                    {.unused = UnusedParameters::kZero, .non_finite = NonFinite::kSkip});
    nn::GradScaler scaler({.initial_scale = 1024, .growth_interval = 1});
    trainee.model.scale_losses(scaler);
    const DistributedDataParallel& engine = trainee.model.engine();
    const auto rank = static_cast<std::size_t>(group.rank());
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (std::size_t batch = 0;; ++batch) {
        const bool has_batch = batch < 2 + rank;
        const bool is_bad = batch == 1;
        trainee.backward(2 * batch, has_batch ? 2 : 0, has_batch, is_bad ? NAN : 1);
        if (engine.is_over()) break;
        const double before = scaler.scale();
        expect(engine.should_step() != is_bad, "the step whose gradients are NaN is not taken");
        if (engine.should_step()) trainee.optimizer.step();
        expect(scaler.scale() == (is_bad ? before : 2 * before),
               "a step that is not offered is told later");
      }
    }
    expect(scaler.scale() == 1024 * 4, "two of three steps grow it, one shrinks it, twice");
    expect(std::isfinite(trainee.values().front()), "NaN has not come in");
  });
}

TEST_CASE("an optimizer waits for the last pass of a step", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
    trainee.model.accumulate(2);
    trainee.backward(0, 2);
    expect(!trainee.model.is_synchronized(), "one pass of two");
    const std::string error = error_of([&] { trainee.optimizer.step(); });
    expect(error.find("the gradients are not reduced") != std::string::npos, error);
    trainee.backward(2, 2);
    expect(trainee.model.is_synchronized(), "both");
    trainee.optimizer.step();
  });
}

TEST_CASE("a step with gradients that were not reduced is an error", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    for (const bool has_stepped : {false, true}) {
      Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
      trainee.optimizer.step();  // there are no gradients
      if (has_stepped) {
        trainee.backward(0, 2);
        trainee.optimizer.step();
      }
      const Tensor input = trainee.context.from_host<double>(
          std::vector<double>(2 * kFeatures, 1.0), {2, kFeatures});
      const Tensor label =
          trainee.context.from_host<std::int64_t>(std::vector<std::int64_t>(2), {2});
      trainee.tape.backward(nn::softmax_cross_entropy(
          trainee.tape, trainee.model.forward(trainee.tape, input), label));
      const std::string error = error_of([&] { trainee.optimizer.step(); });
      expect(error.find("the gradients are this rank's alone") != std::string::npos, error);
    }
  });
}

TEST_CASE("two optimizers may share a module", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
    const auto& weights = trainee.branches.left.parameters();
    nn::Sgd first(trainee.context, weights.first(1), {.learning_rate = 0.1});
    nn::Sgd second(trainee.context, weights.subspan(1), {.learning_rate = 0.1});
    const std::vector<double> before = trainee.values();
    trainee.backward(0, 2);
    first.step();
    second.step();
    const std::vector<double> after = trainee.values();
    expect(after[0] != before[0], "the weight");
    expect(after[kFeatures * kClasses] != before[kFeatures * kClasses], "and the bias");
  });
}

TEST_CASE("two optimizers of a module take the same clipped gradients as one", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    const DdpOptions skips{.unused = UnusedParameters::kZero, .non_finite = NonFinite::kSkip};
    Trainee one(group.shared_from_this(), skips), two(group.shared_from_this(), skips);
    const nn::GradScalerOptions growing{.initial_scale = 1024, .growth_interval = 1};
    nn::GradScaler scaler_of_one(growing), scaler_of_two(growing);
    one.model.scale_losses(scaler_of_one);
    two.model.scale_losses(scaler_of_two);
    const auto& weights = two.branches.left.parameters();
    nn::Sgd only(one.context, one.branches.left.parameters(), {.learning_rate = 0.1});
    nn::Sgd first(two.context, weights.first(1), {.learning_rate = 0.1});
    nn::Sgd second(two.context, weights.subspan(1), {.learning_rate = 0.1});
    for (int step = 0; step < 3; ++step) {
      one.backward(0, 2);
      (void)one.model.clip_grad_norm(0.01);
      only.step();
      two.backward(0, 2);
      (void)two.model.clip_grad_norm(0.01);
      first.step();
      second.step();
    }
    expect(two.values() == one.values(), "equal parameters");
    expect(scaler_of_one.scale() == 8 * 1024, "the scale grew once in a step");
    expect(scaler_of_two.scale() == 8 * 1024, "also with two optimizers");
  });
}

TEST_CASE("an optimizer steps the parameters of one module", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    Trainee a(group.shared_from_this(), {});
    nn::Linear alone({a.context, DType::kFloat64, 0}, kFeatures, kClasses);
    std::vector<nn::Parameter*> both(a.model.parameters().begin(), a.model.parameters().end());
    both.push_back(alone.parameters().front());
    nn::Sgd optimizer(a.context, both, {});
    const std::string error = error_of([&] { optimizer.step(); });
    expect(error.find("'left.weight' and 'weight'") != std::string::npos, error);
  });
}

TEST_CASE("gradients are clipped before the optimizer takes them, or it is an error", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
    const auto clip = [&] { (void)trainee.model.clip_grad_norm(1); };
    const std::string expected = "call it after backward() and before the optimizer's step()";
    expect(error_of(clip).find(expected) != std::string::npos, error_of(clip));
    trainee.backward(0, 2);
    clip();
    trainee.optimizer.step();
    expect(error_of(clip).find(expected) != std::string::npos, error_of(clip));
  });
}
