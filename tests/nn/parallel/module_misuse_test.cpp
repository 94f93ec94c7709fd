// SPDX-License-Identifier: MIT
//
// Calls that would train something else, or leave the engine in the middle of a step.
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/nn/ops.h"
#include "ddp/nn/optim/adam.h"
#include "ddp/nn/optim/clip_grad_norm.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "support/groups.h"
#include "support/two_layers.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::kFeatures;

namespace {

// A trained module whose gradients are bound to the engine's.
struct Wrapped {
  explicit Wrapped(ProcessGroup& group, const DdpOptions& options = {.nominal_samples = 1})
      : chain({context, DType::kFloat64, 0}),
        model(chain, context, group.shared_from_this(), options) {}

  [[nodiscard]] nn::Variable loss() {
    const std::vector<double> features(kFeatures, 1.5);
    const std::vector<std::int64_t> labels(1, 1);
    const nn::Tensor input = context.from_host<double>(features, {1, kFeatures});
    return nn::softmax_cross_entropy(tape, model.forward(tape, input),
                                     context.from_host<std::int64_t>(labels, {1}));
  }
  void backward(std::span<const nn::StepMetric> metrics = {}) {
    model.backward(tape, loss(), 1, metrics);
  }

  nn::Context context;
  test::Chain chain;
  nn::DistributedModule model;
  nn::Tape tape{context};
};

template <class Metric>
constexpr bool kNeedsWeight = !requires(nn::Tensor value) {
  Metric{value};
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

static_assert(kNeedsWeight<nn::StepMetric>);

TEST_CASE("sums over ranks are not taken for their mean", "[module]") {
  for (const int ranks : {1, 2}) {
    test::run_groups(Backend::kShm, ranks, [ranks](ProcessGroup& group) {
      Wrapped wrapped(group);
      nn::Sgd sgd(wrapped.context, wrapped.model.parameters(), {.learning_rate = 0.1});
      nn::Adam adam(wrapped.context, wrapped.model.parameters(), {});
      if (ranks == 1) {  // also before the first step
        wrapped.tape.backward(wrapped.loss());
        static_cast<nn::Optimizer&>(sgd).step(nullptr);
      }
      wrapped.backward();
      const auto clip = [&](const double* scale) {
        (void)nn::clip_grad_norm(wrapped.context, wrapped.model.parameters(), 1, scale);
      };
      // In a world of one there is no scale, and the gradients are what they seem.
      const auto check = [ranks](const std::string& refusal) {
        expect(ranks > 1 ? has(refusal, "is a sum, which its DistributedModule's scale")
                         : refusal.empty(),
               refusal);
      };
      check(error_of([&] { clip(nullptr); }));
      check(error_of([&] { static_cast<nn::Optimizer&>(adam).step(nullptr); }));
      if (ranks == 1) wrapped.backward();
      clip(wrapped.model.engine().gradient_scale());
      sgd.step(wrapped.model.engine().gradient_scale());
    });
  }
}

TEST_CASE("a module's backward takes the mean loss, so a sum of gradients is refused", "[module]") {
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    const std::string error =
        error_of([&] { const Wrapped wrapped(group, {.gradient_kind = GradientKind::kSum}); });
    expect(has(error, "[nn] gradient_kind = kSum"), error);
  });
}

TEST_CASE("a bad vote or metric is an error before the step, and the next step works", "[module]") {
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Wrapped wrapped(group);
    nn::Sgd sgd(wrapped.context, wrapped.model.parameters(), {.learning_rate = 0.1});
    const auto expect_error = [](const auto& fn, const std::string& text) {
      const std::string error = error_of(fn);
      expect(has(error, text), error);
    };
    expect_error([&] { wrapped.model.vote(kMaxVotes, true); }, "vote slot 8 is not below 8");
    const nn::Tensor one = nn::Tensor::zeros({}, DType::kFloat64);
    const nn::Tensor two = nn::Tensor::zeros({2}, DType::kFloat64);
    const std::vector<nn::StepMetric> many(kMaxMetrics + 1, {one, 1});
    const nn::StepMetric wide[] = {{one, 1}, {two, 1}};
    const nn::StepMetric light[] = {{one, -1}};
    expect_error([&] { wrapped.backward(many); }, "got 9 metrics");
    expect_error([&] { wrapped.backward(wide); },
                 "metric 1 is float64[2] on cpu with a weight of 1");
    expect_error([&] { wrapped.backward(light); }, "with a weight of -1");
    const nn::StepMetric none[] = {{nn::Tensor(), 0}, {one, 1}};
    wrapped.backward(none);
    sgd.step();
    expect(wrapped.model.engine().summary().metrics[1].mean() == 0, "the metric");
  });
}
