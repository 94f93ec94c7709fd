// SPDX-License-Identifier: MIT
//
// Modules whose ranks behave differently: layers that are not reached, data that runs out,
// gradients that are not finite. module_optimizer_test.cpp has their optimizers.
#include "ddp/nn/parallel/distributed_module.h"

#include <algorithm>
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
#include "support/branches_trainee.h"
#include "support/differences.h"
#include "support/groups.h"
#include "support/stderr_capture.h"
#include "support/two_layers.h"

using namespace ddp;
using nn::Tensor;
using test::Branches;
using test::Chain;
using test::error_of;
using test::expect;
using test::kClasses;
using test::kFeatures;
using Trainee = test::BranchesTrainee;

namespace {

// What two ranks throw in the first step with a batch each.
template <class Batch>
std::vector<std::string> errors_of_batches(Backend backend, const std::vector<Batch>& batches) {
  std::vector<std::string> errors(2);
  test::run_groups(backend, 2, [&](ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    errors[rank] = error_of([&] {
      Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
      const Tensor input =
          trainee.context.from_host<double>(std::vector<double>(kFeatures, 1.0), {1, kFeatures});
      const Tensor label =
          trainee.context.from_host<std::int64_t>(std::vector<std::int64_t>(1), {1});
      const nn::Variable loss = nn::softmax_cross_entropy(
          trainee.tape, trainee.model.forward(trainee.tape, input), label);
      trainee.model.backward(trainee.tape, loss, batches[rank]);
    });
  });
  return errors;
}

}  // namespace

TEST_CASE("a layer that no rank uses does not change, not even by weight decay", "[module]") {
  for (const UnusedParameters unused : {UnusedParameters::kZero, UnusedParameters::kStatic}) {
    test::run_on_all_backends(2, [&](ProcessGroup& group) {
      Trainee trainee(group.shared_from_this(), {.unused = unused});
      const std::vector<double> before = trainee.values();
      for (int step = 0; step < 3; ++step) {
        trainee.backward(2 * static_cast<std::size_t>(group.rank()), 2);
        trainee.model.step(trainee.optimizer);
      }
      const std::vector<double> after = trainee.values();
      const auto half = static_cast<std::ptrdiff_t>(before.size() / 2);
      expect(!std::equal(before.begin(), before.begin() + half, after.begin()), "left is trained");
      expect(std::equal(before.begin() + half, before.end(), after.begin() + half),
             "right is as it was");
    });
  }
}

TEST_CASE("a layer that one rank uses is trained on all ranks", "[module]") {
  test::run_on_all_backends(3, [&](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(),
                    {.unused = UnusedParameters::kZero, .fingerprint_every = 1});
    for (int step = 0; step < 4; ++step) {
      trainee.branches.takes_left = group.rank() != step % 3;
      trainee.backward(static_cast<std::size_t>(group.rank()), 1);
      trainee.model.step(trainee.optimizer);
    }
    std::vector<double> first = trainee.values();
    group.broadcast(buffer_of(first), 0).wait();
    expect(first == trainee.values(), "equal on all ranks, to the last bit");
  });
}

TEST_CASE("loaders of 5 and 9 batches train the same model as one process with all of them",
          "[module]") {
  constexpr std::size_t kBatches[] = {5, 9};
  std::vector<double> alone;
  test::run_groups(Backend::kShm, 1, [&](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
    for (std::size_t step = 0; step < 9; ++step) {  // rank 0's sample, then rank 1's two
      const std::size_t first = 3 * step + (step < kBatches[0] ? 0 : 1);
      trainee.backward(first, 3 * step + 3 - first);
      trainee.model.step(trainee.optimizer);
    }
    alone = trainee.values();
  });
  test::run_on_all_backends(2, [&](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
    const auto rank = static_cast<std::size_t>(group.rank());
    for (std::size_t step = 0;; ++step) {
      const bool has_batch = step < kBatches[rank];
      trainee.backward(3 * step + rank, has_batch ? 1 + rank : 0, has_batch);
      trainee.model.step(trainee.optimizer);  // does nothing in the last round
      if (trainee.model.engine().is_over()) break;
    }
    expect(test::largest_difference(trainee.values(), alone) < 1e-12, "the same model");
  });
}

TEST_CASE("a rank without samples steps, whatever layers its empty batch reached", "[module]") {
  test::run_on_all_backends(2, [&](ProcessGroup& group) {
    nn::Context context;
    Chain chain({context, DType::kFloat64, 0});
    nn::DistributedModule model(chain, context, group.shared_from_this(), {});
    nn::Sgd optimizer(context, chain.parameters(), {.learning_rate = 0.1});
    nn::Tape tape(context);
    for (const int passes : {1, 2, 1}) {
      model.engine().accumulate(passes);
      for (int pass = 0; pass < passes; ++pass) {
        const std::size_t n = group.rank() == 1 || pass == 1 ? 0 : 2;
        const Tensor input =
            context.from_host<double>(std::vector<double>(n * kFeatures, 1.0), {n, kFeatures});
        const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>(n), {n});
        const nn::Variable loss =
            nn::softmax_cross_entropy(tape, model.forward(tape, input), label);
        model.backward(tape, loss, static_cast<double>(n));
      }
      model.step(optimizer);
    }
    for (const nn::Parameter* parameter : chain.parameters()) {
      const std::vector<double> own = context.to_host<double>(parameter->value());
      std::vector<double> first = own;
      group.broadcast(buffer_of(first), 0).wait();
      expect(first == own, parameter->name() + " is equal on all ranks, to the last bit");
      expect(std::isfinite(own[0]), "an empty batch adds nothing");
    }
  });
}

TEST_CASE("a rank without samples needs no forward pass, and one with samples needs parameters",
          "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
    const nn::Variable none(Tensor::zeros({}, DType::kFloat64, group.device()));
    const std::string error = error_of([&] { trainee.model.backward(trainee.tape, none, 1); });
    expect(error.find("the loss does not depend on any parameter") != std::string::npos, error);
    for (int step = 0; step < 2; ++step) {
      if (group.rank() == 0) {
        trainee.backward(0, 2);
      } else {
        trainee.model.backward(trainee.tape, none, 0);
      }
      expect(trainee.model.engine().summary().samples == 2, "those of rank 0");
      trainee.optimizer.step();
    }
  });
}

TEST_CASE("a step with NaN gradients changes no rank's model", "[module]") {
  test::run_on_all_backends(2, [&](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(),
                    {.unused = UnusedParameters::kStatic, .non_finite = NonFinite::kSkip});
    for (const bool is_bad : {false, true, false}) {
      const std::vector<double> before = trainee.values();
      const double scale =
          is_bad && group.rank() == 1 ? std::numeric_limits<double>::quiet_NaN() : 1;
      trainee.backward(2 * static_cast<std::size_t>(group.rank()), 2, true, scale);
      trainee.model.step(trainee.optimizer);
      expect((trainee.values() == before) == is_bad, "only good steps change the model");
    }
  });
}

TEST_CASE("ranks vote in a module's step", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
    trainee.model.accumulate(2);
    trainee.model.vote(0, group.rank() == 1);
    trainee.model.vote(1, true);
    trainee.backward(0, 2);
    trainee.backward(2, 2);
    const DistributedDataParallel& engine = trainee.model.engine();
    expect(engine.agreed(0, Quorum::kAny) && !engine.agreed(0, Quorum::kAll), "one rank");
    expect(engine.agreed(1, Quorum::kAll), "both ranks");
    trainee.optimizer.step();
    trainee.backward(0, 2);
    expect(!engine.agreed(1, Quorum::kAny), "votes are for one step");
  });
}

TEST_CASE("a step without samples leaves the loss scale as it is", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(),
                    {.unused = UnusedParameters::kZero, .non_finite = NonFinite::kSkip});
    nn::GradScaler scaler({.initial_scale = 1024, .growth_interval = 2});
    trainee.model.scale_losses(scaler);
    for (const std::size_t samples : {0, 2, 0, 0}) {
      trainee.backward(0, samples);
      expect(trainee.model.engine().should_step() == (samples > 0), "only one step is taken");
      trainee.optimizer.step();
      expect(scaler.scale() == 1024, "nothing overflowed, and no step is counted without samples");
    }
    trainee.backward(0, 2);
    trainee.optimizer.step();
    expect(scaler.scale() == 2048, "two steps were taken");
  });
}

TEST_CASE("gradients that no loss scale makes finite cause one warning", "[module]") {
  const test::StderrCapture capture;
  test::run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(),
                    {.unused = UnusedParameters::kZero, .non_finite = NonFinite::kSkip});
    nn::GradScaler scaler({.initial_scale = 0x1p-12});
    trainee.model.scale_losses(scaler);
    const auto step = [&](double scale) {
      trainee.backward(0, 2, true, scale);
      trainee.optimizer.step();
    };
    const std::string warning = "finite with the smallest loss scale";
    for (int skipped = 0; skipped < 2; ++skipped) step(NAN);
    group.barrier().wait();
    expect(capture.text().find(warning) == std::string::npos, "the scale became the smallest");
    group.barrier().wait();
    for (int skipped = 0; skipped < 3; ++skipped) step(NAN);
    expect(scaler.scale() == 0x1p-14, "it stays the smallest");
    group.barrier().wait();
    const std::string text = capture.text();
    const std::size_t found = text.find(warning);
    expect(found != std::string::npos, "a warning: " + text);
    expect(text.find(warning, found + 1) == std::string::npos, "only one: " + text);
    const std::vector<double> before = trainee.values();
    step(1);
    expect(trainee.values() != before, "a good step is taken");
  });
}

TEST_CASE("ranks in different epochs are found from their batches", "[module]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  struct Batch {
    std::int64_t count;
    std::int64_t epoch;
  };
  const std::vector<std::string> errors =
      errors_of_batches<Batch>(backend, {{.count = 1, .epoch = 0}, {.count = 1, .epoch = 3}});
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("rank 0 in epoch 0, rank 1 in epoch 3"));
  }
}

TEST_CASE("a rank that reads another one's part of the data is found from its batch", "[module]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  struct Batch {
    std::int64_t count = 1;
    std::int64_t epoch = 0;
    int rank = 0;
    int world_size = 2;
  };
  const auto errors = [&](const Batch& on_rank1) {
    return errors_of_batches<Batch>(backend, {{}, on_rank1});
  };
  for (const std::string& error : errors({.rank = 0})) {
    CHECK_THAT(error, Catch::Contains("rank 1 got rank 0's part of the data: give the sampler"));
  }
  const std::vector<std::string> none(2);
  CHECK(errors({.rank = 1}) == none);
  CHECK(errors({.rank = 0, .world_size = 1}) == none);  // each rank has data of its own
}
