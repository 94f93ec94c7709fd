// SPDX-License-Identifier: MIT
//
// Modules whose ranks behave differently: layers that are not reached, data that runs out,
// gradients that are not finite.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "support/differences.h"
#include "support/groups.h"

using namespace ddp;
using nn::Tensor;
using test::error_of;
using test::expect;

namespace {

constexpr std::size_t kFeatures = 3;
constexpr std::size_t kClasses = 2;

// Two layers, of which forward uses one.
class Branches final : public nn::Module {
 public:
  explicit Branches(const nn::Scope& scope)
      : left(scope.child("left"), kFeatures, kClasses),
        right(scope.child("right"), kFeatures, kClasses) {
    add(left);
    add(right);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    return (takes_left ? left : right).forward(tape, input);
  }

  nn::Linear left;
  nn::Linear right;
  bool takes_left = true;
};

// Two layers, of which an empty batch may skip the second.
class Chain final : public nn::Module {
 public:
  explicit Chain(const nn::Scope& scope)
      : first(scope.child("first"), kFeatures, kClasses),
        second(scope.child("second"), kClasses, kClasses) {
    add(first);
    add(second);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    const nn::Variable middle = first.forward(tape, input);
    return input.value().shape()[0] == 0 ? middle : second.forward(tape, middle);
  }

  nn::Linear first;
  nn::Linear second;
};

// A batch norm, whose statistics are buffers.
class Normalised final : public nn::Module {
 public:
  explicit Normalised(const nn::Scope& scope)
      : norm(scope.child("norm"), kFeatures), fc(scope.child("fc"), kFeatures, kClasses) {
    add(norm);
    add(fc);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    return fc.forward(tape, norm.forward(tape, input));
  }

  nn::BatchNorm1d norm;
  nn::Linear fc;
};

// A module with a child that it did not add, in front of one that it did.
class Forgetful final : public nn::Module {
 public:
  explicit Forgetful(const nn::Scope& scope)
      : forgotten(scope.child("forgotten"), kFeatures, kFeatures),
        fc(scope.child("fc"), kFeatures, kClasses) {
    add(fc);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    return fc.forward(tape, forgotten.forward(tape, input));
  }

  nn::Linear forgotten;
  nn::Linear fc;
};

// Who calls the optimizer: the model or the test.
enum class Caller { kModel, kOptimizer };

// The training of one rank.
struct Trainee {
  Trainee(const std::shared_ptr<ProcessGroup>& group, DdpOptions options)
      : branches({context, DType::kFloat64, 0}),
        model(branches, context, group, std::move(options)),
        optimizer(context, branches.parameters(),
                  {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
        tape(context) {}

  // Runs backward on samples first .. first + n - 1. The features of the first one are scaled.
  void backward(std::size_t first, std::size_t n, bool is_active = true, double scale = 1) {
    std::vector<double> features;
    std::vector<std::int64_t> labels;
    for (std::size_t sample = first; sample < first + n; ++sample) {
      for (std::size_t i = 0; i < kFeatures; ++i) {
        features.push_back((sample == first ? scale : 1) * static_cast<double>(sample * 5 + i));
      }
      labels.push_back(static_cast<std::int64_t>(sample % kClasses));
    }
    const Tensor input = context.from_host<double>(features, {n, kFeatures});
    const Tensor label = context.from_host<std::int64_t>(labels, {n});
    const nn::Variable loss = nn::softmax_cross_entropy(tape, model.forward(tape, input), label);
    model.backward(tape, loss, {.samples = static_cast<double>(n), .is_active = is_active});
  }

  [[nodiscard]] std::vector<double> values() {
    std::vector<double> all;
    for (const nn::Parameter* parameter : branches.parameters()) {
      const std::vector<double> own = context.to_host<double>(parameter->value());
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  nn::Context context;
  Branches branches;
  nn::DistributedModule model;
  nn::Sgd optimizer;
  nn::Tape tape;
};

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
    nn::GradScaler scaler({.initial_scale = 1024});
    trainee.model.scale_losses(scaler);
    trainee.backward(0, 0);
    trainee.optimizer.step();
    expect(!trainee.model.engine().should_step(), "the step is not taken");
    expect(scaler.scale() == 1024, "nothing overflowed");
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

TEST_CASE("a distributed module has the names of the module that it wraps", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    Normalised normalised({context, DType::kFloat64, 0});
    nn::DistributedModule model(normalised, context, group.shared_from_this(), {});
    nn::Module& module = model;
    expect(&model.module() == &normalised, "the wrapped one");
    const std::vector<nn::NamedTensor> state = module.state_dict();
    const std::vector<nn::NamedTensor> wanted = normalised.state_dict();
    expect(state.size() == wanted.size(), "as many tensors");
    for (std::size_t i = 0; i < state.size(); ++i) {
      expect(state[i].name == wanted[i].name, state[i].name);
      expect(state[i].value.buffer().data == wanted[i].value.buffer().data, "the same memory");
    }
    module.eval();
    expect(!normalised.norm.is_training(), "evaluation reaches the layers");
    module.train();
    expect(normalised.norm.is_training(), "as does training");
  });
}

// The gradients were in the memory of the engine, which has been destroyed.
TEST_CASE("a module may be distributed again, and be trained alone in between", "[module]") {
  for (const int world_size : {1, 2}) {
    test::run_on_all_backends(world_size, [](ProcessGroup& group) {
      nn::Context context;
      Branches branches({context, DType::kFloat64, 0});
      nn::Tape tape(context);
      nn::Sgd optimizer(context, branches.left.parameters(), {.learning_rate = 0.1});
      const auto loss_of = [&](nn::Module& module) {
        const Tensor input =
            context.from_host<double>(std::vector<double>(2 * kFeatures, 1.0), {2, kFeatures});
        const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>(2), {2});
        return nn::softmax_cross_entropy(tape, module.forward(tape, input), label);
      };
      const auto first_value = [&] {
        return context.to_host<double>(branches.left.parameters()[0]->value())[0];
      };
      for (int phase = 0; phase < 3; ++phase) {
        {
          nn::DistributedModule model(branches, context, group.shared_from_this(),
                                      {.unused = UnusedParameters::kZero});
          const double before = first_value();
          model.backward(tape, loss_of(model), 2.0);
          optimizer.step();
          expect(first_value() != before, "a step of all ranks");
          model.backward(tape, loss_of(model), 2.0);  // its gradients are not used
        }
        for (const nn::Parameter* parameter : branches.parameters()) {
          expect(!parameter->has_grad(), "no gradient in memory that is gone");
          expect(parameter->grad_owner() == nullptr, "nobody who is gone to ask");
        }
        const double before = first_value();
        tape.backward(loss_of(branches));
        optimizer.step();
        expect(first_value() != before, "a step of this rank alone");
      }
    });
  }
}

// This happens if the new module is created before the old one is destroyed.
TEST_CASE("a distributed module that is destroyed leaves gradients to its successor", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    Branches branches({context, DType::kFloat64, 0});
    auto model = std::make_unique<nn::DistributedModule>(branches, context,
                                                         group.shared_from_this(), DdpOptions{});
    model = std::make_unique<nn::DistributedModule>(branches, context, group.shared_from_this(),
                                                    DdpOptions{});
    for (const nn::Parameter* parameter : branches.parameters()) {
      expect(parameter->grad_owner() == model.get(), "the second one's");
    }
  });
}

TEST_CASE("in evaluation ranks may have different numbers of batches", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    nn::Context context;
    Normalised normalised({context, DType::kFloat64, 0});
    nn::DistributedModule model(normalised, context, group.shared_from_this(),
                                {.buffer_sync = BufferSync::kEveryForward});
    nn::Tape tape(context, nn::Recording::kOff);
    const Tensor input =
        context.from_host<double>(std::vector<double>(2 * kFeatures, 1.0), {2, kFeatures});
    model.eval();
    for (int batch = 0; batch <= group.rank(); ++batch) (void)model.forward(tape, input);
    group.barrier().wait();  // would meet a broadcast of buffers
  });
}

TEST_CASE("ranks in different epochs are found from their batches", "[module]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  std::vector<std::string> errors(2);
  test::run_groups(backend, 2, [&](ProcessGroup& group) {
    Trainee trainee(group.shared_from_this(), {.unused = UnusedParameters::kZero});
    const struct {
      std::int64_t count;
      std::int64_t epoch;
    } batch{.count = 1, .epoch = 3 * group.rank()};
    errors[static_cast<std::size_t>(group.rank())] = error_of([&] {
      const Tensor input =
          trainee.context.from_host<double>(std::vector<double>(kFeatures, 1.0), {1, kFeatures});
      const Tensor label =
          trainee.context.from_host<std::int64_t>(std::vector<std::int64_t>(1), {1});
      const nn::Variable loss = nn::softmax_cross_entropy(
          trainee.tape, trainee.model.forward(trainee.tape, input), label);
      trainee.model.backward(trainee.tape, loss, batch);
    });
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("rank 0 in epoch 0, rank 1 in epoch 3"));
  }
}

TEST_CASE("a child that was not added is an error that names its parameter and add()", "[module]") {
  for (const int world_size : {1, 2}) {
    test::run_on_all_backends(world_size, [](ProcessGroup& group) {
      const std::string error = error_of([&] {  // a slow rank gets the error in its constructor
        nn::Context context;
        Forgetful module({context, DType::kFloat64, 0});
        nn::DistributedModule model(module, context, group.shared_from_this(), {});
        nn::Tape tape(context);
        const Tensor input =
            context.from_host<double>(std::vector<double>{1, 2, 3}, {1, kFeatures});
        const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>{0}, {1});
        const nn::Variable output = model.forward(tape, input);
        model.backward(tape, nn::softmax_cross_entropy(tape, output, label), 1);
      });
      expect(error.find("parameter 'forgotten.bias' (shape [3])") != std::string::npos, error);
      expect(error.find("belongs to no module that was added") != std::string::npos, error);
      expect(error.find("call add(child)") != std::string::npos, error);
    });
  }
}

TEST_CASE("a parameter of another distributed module is an error that names it", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    nn::Linear one({context, DType::kFloat64, 0}, kFeatures, kFeatures);
    nn::Linear two({context, DType::kFloat64, 0}, kFeatures, kClasses);
    nn::DistributedModule first(one, context, group.shared_from_this(), {});
    nn::DistributedModule second(two, context, group.shared_from_this(), {});
    nn::Tape tape(context);
    const Tensor input = context.from_host<double>(std::vector<double>{1, 2, 3}, {1, kFeatures});
    const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>{0}, {1});
    const nn::Variable output = second.forward(tape, first.forward(tape, input));
    const nn::Variable loss = nn::softmax_cross_entropy(tape, output, label);
    const std::string error = error_of([&] { second.backward(tape, loss, 1); });
    expect(error.find("is of another DistributedModule") != std::string::npos, error);
    expect(error.find("set_requires_grad(false) on the other module") != std::string::npos, error);
  });
}

TEST_CASE("a module that was wrapped again is an error of the first wrapper", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    nn::Linear linear({context, DType::kFloat64, 0}, kFeatures, kClasses);
    nn::DistributedModule first(linear, context, group.shared_from_this(), {});
    nn::DistributedModule second(linear, context, group.shared_from_this(), {});
    nn::Tape tape(context);
    const Tensor input = context.from_host<double>(std::vector<double>{1, 2, 3}, {1, kFeatures});
    const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>{0}, {1});
    const auto loss = [&] {
      return nn::softmax_cross_entropy(tape, linear.forward(tape, input), label);
    };
    second.backward(tape, loss(), 1);
    for (nn::Parameter* parameter : linear.parameters()) parameter->clear_grad();
    const std::string error = error_of([&] { first.backward(tape, loss(), 1); });
    expect(error.find("now belongs to the DistributedModule that was made of its module last") !=
               std::string::npos,
           error);
  });
}

namespace {

// A batch of one sample on each rank.
nn::Variable loss_of(nn::Tape& tape, nn::Context& context, nn::Module& model, int rank) {
  const std::vector<double> features(kFeatures, 1.0 + rank);
  const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>{rank % 2}, {1});
  const nn::Variable input = context.from_host<double>(features, {1, kFeatures});
  return nn::softmax_cross_entropy(tape, model.forward(tape, input), label);
}

}  // namespace

TEST_CASE("what is frozen is rank 0's on all ranks, and is not trained", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    nn::Context context;
    Chain chain({context, DType::kFloat64, /*seed=*/static_cast<std::uint64_t>(group.rank())});
    chain.first.set_requires_grad(false);
    nn::DistributedModule model(chain, context, group.shared_from_this(), {.fingerprint_every = 1});
    nn::Sgd optimizer(context, model.parameters(),
                      {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    nn::Tape tape(context);
    const auto value_of = [&](nn::Linear& layer) {
      return context.to_host<double>(layer.parameters()[0]->value());
    };
    std::vector<double> frozen = value_of(chain.first);
    group.broadcast(buffer_of(frozen), 0).wait();
    const std::vector<double> head = value_of(chain.second);
    for (int step = 0; step < 3; ++step) {
      model.backward(tape, loss_of(tape, context, model, group.rank()), 1);
      (void)model.clip_grad_norm(1);
      optimizer.step();
    }
    expect(value_of(chain.first) == frozen, "rank 0's, untouched by weight decay");
    expect(value_of(chain.second) != head, "trained");
    expect(model.engine().parameter_count() == 2 && model.parameters().size() == 4, "the head");
  });
}

TEST_CASE("what is unfrozen later needs a new distributed module", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    Chain chain({context, DType::kFloat64, 0});
    chain.first.set_requires_grad(false);
    nn::DistributedModule model(chain, context, group.shared_from_this(), {});
    nn::Tape tape(context);
    chain.first.set_requires_grad(true);
    const std::string error =
        error_of([&] { model.backward(tape, loss_of(tape, context, model, 0), 1); });
    expect(error.find("'first.bias' (shape [2]) took part in forward, but was frozen when the "
                      "DistributedModule was made") != std::string::npos,
           error);
  });
}

TEST_CASE("a module of which everything is frozen has nothing to train", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    nn::Linear layer({context, DType::kFloat64, 0}, kFeatures, kClasses);
    layer.set_requires_grad(false);
    const std::string error = error_of(
        [&] { nn::DistributedModule model(layer, context, group.shared_from_this(), {}); });
    expect(error.find("all parameters of the module are frozen") != std::string::npos, error);
  });
}

TEST_CASE("two models train in turn, one through the other, which is frozen meanwhile",
          "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    nn::Context context;
    nn::Linear maker({context, DType::kFloat64, 1}, kFeatures, kFeatures);
    nn::Linear judge({context, DType::kFloat64, 2}, kFeatures, kClasses);
    nn::DistributedModule generator(maker, context, group.shared_from_this(), {});
    nn::DistributedModule discriminator(judge, context, group.shared_from_this(), {});
    nn::Sgd maker_optimizer(context, maker.parameters(), {.learning_rate = 0.1});
    nn::Sgd judge_optimizer(context, judge.parameters(), {.learning_rate = 0.1});
    nn::Tape tape(context);
    const Tensor noise = context.from_host<double>(
        std::vector<double>(kFeatures, 1.0 + group.rank()), {1, kFeatures});
    const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>{1}, {1});
    const auto value_of = [&](nn::Linear& layer) {
      return context.to_host<double>(layer.parameters()[0]->value());
    };
    const auto loss = [&](const nn::Variable& made) {
      return nn::softmax_cross_entropy(tape, discriminator.forward(tape, made), label);
    };
    for (int step = 0; step < 3; ++step) {
      const std::vector<double> makers = value_of(maker), judges = value_of(judge);
      discriminator.backward(tape, loss(generator.forward(tape, noise).value()), 1);
      judge_optimizer.step();
      expect(value_of(maker) == makers && value_of(judge) != judges, "the judge alone");

      const std::vector<double> judged = value_of(judge);
      judge.set_requires_grad(false);
      generator.backward(tape, loss(generator.forward(tape, noise)), 1);
      judge.set_requires_grad(true);
      maker_optimizer.step();
      expect(value_of(maker) != makers && value_of(judge) == judged, "the maker alone");
    }
    std::vector<double> first = value_of(maker);
    group.broadcast(buffer_of(first), 0).wait();
    expect(first == value_of(maker), "equal on all ranks");
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
