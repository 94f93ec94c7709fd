// SPDX-License-Identifier: MIT
//
// What autograd may do to ddp_torch.h: gradients in parts, none, kept ones, exceptions. LibTorch
// also defines macros such as CHECK.
#define CATCH_CONFIG_PREFIX_ALL
#include <catch2/catch.hpp>

#include "ddp_torch.h"
#include "support/differences.h"
#include "support/groups.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::run_groups;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// x * weight, computed again in backward, which adds to the gradient of the weight by a pass of its
// own: a re-entrant checkpoint.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor* weight) {  // no edge
    context->save_for_backward({x});
    context->saved_data["weight"] = *weight;
    return x * *weight;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    const torch::AutoGradMode records(true);
    torch::autograd::backward({x * context->saved_data["weight"].toTensor()}, {gradients[0]});
    return {x.grad(), torch::Tensor()};
  }
};

// Does not use its weight.
struct NoGradient : torch::autograd::Function<NoGradient> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& x, const torch::Tensor&) {
    return x.clone();
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0], torch::Tensor()};
  }
};

struct Failure : torch::autograd::Function<Failure> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& x) { return x.clone(); }
  static variable_list backward(AutogradContext*, const variable_list&) {
    throw std::runtime_error("backward has failed");
  }
};

struct Pair : torch::nn::Module {
  torch::Tensor first = register_parameter("first", torch::ones({2}));
  torch::Tensor second = register_parameter("second", torch::full({2}, 2.0F));
};

std::shared_ptr<ProcessGroup> group_of_one() {
  return init_process_group({.device = DeviceChoice::kCpu, .rank = 0, .world_size = 1});
}

bool is_all(const torch::Tensor& grad, double value) {
  return grad.defined() && grad.eq(value).all().item<bool>();
}

}  // namespace

CATCH_TEST_CASE("a gradient in two parts is scaled in both, whatever the loss's type",
                "[libtorch]") {
  for (const auto type : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    for (const int passes : {1, 2}) {
      CATCH_INFO(c10::toString(type) << ", passes: " << passes);
      run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
        Pair pair;
        ddp_torch::DistributedDataParallel model(group.shared_from_this(), pair,
                                                 {.unused = UnusedParameters::kStatic});
        for (int step = 0; step < 3; ++step) {
          if (passes > 1) model.engine().accumulate(passes);
          for (int pass = 0; pass < passes; ++pass) {
            const torch::Tensor half = Checkpoint::apply(pair.first, &pair.second);
            model.backward(Checkpoint::apply(half, &pair.second).mean().to(type), 4);
          }
          expect(is_all(pair.first.grad(), 2), "weight * weight / 2");
          expect(is_all(pair.second.grad(), 2), "2 * weight / 2");
        }
      });
    }
  }
}

CATCH_TEST_CASE("a weight without a gradient counts as not reached", "[libtorch]") {
  const auto loss_of_one = [](Pair& pair) {
    return NoGradient::apply(pair.first, pair.second).mean();
  };
  const auto loss_of_both = [](Pair& pair) { return (pair.first * pair.second).mean(); };
  const auto second_error = [&](UnusedParameters unused, const auto& first, const auto& second) {
    Pair pair;
    ddp_torch::DistributedDataParallel model(group_of_one(), pair, {.unused = unused});
    model.backward(first(pair), 1);
    return error_of([&] { model.backward(second(pair), 1); });
  };
  CATCH_CHECK_THAT(second_error(UnusedParameters::kError, loss_of_both, loss_of_one),
                   Catch::Contains("backward gave no gradient for 'second'"));
  CATCH_CHECK_THAT(second_error(UnusedParameters::kStatic, loss_of_both, loss_of_one),
                   Catch::Contains("backward gave fewer gradients for 'second'"));
  CATCH_CHECK_THAT(second_error(UnusedParameters::kStatic, loss_of_one, loss_of_both),
                   Catch::Contains("'second'"));
  for (const auto unused : {UnusedParameters::kZero, UnusedParameters::kStatic}) {
    for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
      run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
        Pair pair;
        ddp_torch::DistributedDataParallel model(group.shared_from_this(), pair,
                                                 {.unused = unused});
        for (int step = 0; step < 3; ++step) {
          model.backward(loss_of_one(pair).to(type), 4);
          expect(is_all(pair.first.grad(), 0.5), "the other one's");
          expect(!pair.second.grad().defined(), "none, as without libddp");
        }
        if (unused == UnusedParameters::kStatic) return;
        const bool uses_both = group.rank() == 1;
        model.backward((uses_both ? loss_of_both(pair) : loss_of_one(pair)).to(type), 4);
        expect(is_all(pair.second.grad(), 0.25), "the mean of 0.5 and nothing");
      });
    }
  }
}

CATCH_TEST_CASE("a gradient that is kept outlives the adapter", "[libtorch]") {
  Pair pair;
  torch::Tensor kept, expected, part;
  const void* bucket = nullptr;
  const std::shared_ptr<ProcessGroup> group = group_of_one();
  {
    ddp_torch::DistributedDataParallel model(group, pair);
    model.backward((pair.first * pair.second * pair.second).mean(), 1);
    kept = pair.second.grad();
    part = pair.first.grad().detach().slice(0, 1);  // without the gradient itself
    expected = kept.clone();
    bucket = kept.data_ptr();
    CATCH_REQUIRE(bucket == model.engine().gradient(1).data);
  }
  CATCH_CHECK(group.use_count() == 1);  // the engine did not wait for it
  CATCH_REQUIRE(kept.data_ptr() != bucket);
  CATCH_CHECK(kept.equal(expected));
  CATCH_CHECK(is_all(part, 2));
  CATCH_CHECK(!pair.second.grad().defined());
}

CATCH_TEST_CASE("a step that has failed is over", "[libtorch]") {
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      Pair pair;
      ddp_torch::DistributedDataParallel model(group.shared_from_this(), pair);
      const auto loss = [&] { return (pair.first * pair.second).mean().to(type); };
      expect(error_of([&] { model.backward(Failure::apply(loss()), 4); }) == "backward has failed",
             "the cause");
      expect(!pair.first.grad().defined(), "nothing for an optimizer");
      expect(error_of([&] { loss().backward(); }).find("was called outside of a step") !=
                 std::string::npos,
             "no step");
    });
  }
}
