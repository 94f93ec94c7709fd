// SPDX-License-Identifier: MIT
//
// Distributed modules of which a part is frozen.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/nn/modules/linear.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "support/groups.h"
#include "support/two_layers.h"

using namespace ddp;
using nn::Tensor;
using test::Chain;
using test::error_of;
using test::expect;
using test::kClasses;
using test::kFeatures;

namespace {

// A batch of one sample on each rank.
nn::Variable loss_of(nn::Tape& tape, nn::Context& context, nn::Module& model, int rank) {
  const std::vector<double> features(kFeatures, 1.0 + rank);
  const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>{rank % 2}, {1});
  const nn::Variable input = context.from_host<double>(features, {1, kFeatures});
  return nn::softmax_cross_entropy(tape, model.forward(tape, input), label);
}

struct BodyAndHead final : nn::Module {
  BodyAndHead(const nn::Scope& scope, std::size_t width)
      : body(scope.child("body"), 2, width), head(scope.child("head"), 2, 2) {
    register_module(body);
    register_module(head);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    return head.forward(tape, input);
  }

  nn::Linear body, head;
};

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

TEST_CASE("ranks whose frozen parameters differ are told which", "[module]") {
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    nn::Context context;
    BodyAndHead module({context, DType::kFloat64, /*seed=*/0}, group.rank() == 0 ? 3 : 4);
    module.body.set_requires_grad(false);
    const std::string error = error_of(
        [&] { nn::DistributedModule model(module, context, group.shared_from_this(), {}); });
    expect(error.find("[nn] models differ in frozen parameter 0: rank 0 has 'body.weight' "
                      "float64[3, 2], rank 1 has 'body.weight' float64[4, 2]") == 0,
           error);
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
