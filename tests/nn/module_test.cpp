// SPDX-License-Identifier: MIT
//
// How modules are put together.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "ddp/nn/modules/conv2d.h"
#include "ddp/nn/modules/dropout.h"
#include "ddp/nn/modules/embedding.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/modules/sequential.h"
#include "ddp/nn/ops.h"
#include "support/run_ranks.h"

using namespace ddp;
using namespace ddp::nn;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> names;
  for (const Parameter* parameter : module.parameters()) names.push_back(parameter->name());
  return names;
}

// Gives others access to what a module's constructor calls.
class Parent final : public Module {
 public:
  using Module::register_module;

  Variable forward(Tape& /*tape*/, const Variable& input) override { return input; }
};

}  // namespace

TEST_CASE("layers of a Sequential are named by their numbers and applied in order", "[module]") {
  Context context;
  const Scope scope(context, DType::kFloat64, /*seed=*/3);
  Sequential net(scope.child("net"));
  net.append<Linear>(4, 3);
  net.append(relu);
  net.append([](Tape& tape, const Variable& x) { return add(tape, x, x); });
  const Linear& last = net.append<Linear>(3, 2);
  CHECK(names_of(net) ==
        std::vector<std::string>{"net.0.weight", "net.0.bias", "net.3.weight", "net.3.bias"});
  CHECK(last.parameters()[0] == net.parameters()[2]);

  Linear first(scope.child("net.0"), 4, 3);  // equal names give equal values
  Linear second(scope.child("net.3"), 3, 2);
  Tape tape(context, Recording::kOff);
  const std::vector<double> values = {1, -2, 0.5, 3, -1, 0, 2, -0.25};
  const Variable x = context.from_host<double>(values, {2, 4});
  const Variable hidden = relu(tape, first.forward(tape, x));
  const Variable expected = second.forward(tape, add(tape, hidden, hidden));
  CHECK(context.to_host<double>(net.forward(tape, x).value()) ==
        context.to_host<double>(expected.value()));
}

TEST_CASE("a Sequential inside another is filled when it is made", "[module]") {
  Context context;
  Sequential net({context, DType::kFloat64, 0});
  net.append(relu);
  const Sequential& block = net.append<Sequential>([](Sequential& inner) {
    inner.append<Linear>(2, 3);
    inner.append<Linear>(3, 2);
  });
  net.append<Linear>(2, 1);
  CHECK(names_of(block).size() == 4);
  CHECK(names_of(net) == std::vector<std::string>{"1.0.weight", "1.0.bias", "1.1.weight",
                                                  "1.1.bias", "2.weight", "2.bias"});
}

TEST_CASE("a Linear without a bias has the same weight as one with a bias", "[module]") {
  Context context;
  const Scope scope(context, DType::kFloat64, /*seed=*/3);
  Sequential net(scope);
  net.append(flatten);
  net.append<Linear>(4, 3, LinearOptions{.bias = Bias::kNo});
  CHECK(names_of(net) == std::vector<std::string>{"1.weight"});
  Linear with_bias(scope.child("1"), 4, 3);
  const Tensor weight = with_bias.parameters()[0]->value();
  CHECK(context.to_host<double>(net.parameters()[0]->value()) == context.to_host<double>(weight));

  Tape tape(context, Recording::kOff);
  const std::vector<double> values = {1, -2, 0.5, 3, -1, 0, 2, -0.25};
  const Tensor x = context.from_host<double>(values, {2, 2, 2});
  const Variable expected = linear(tape, x.reshaped({2, 4}), weight);
  CHECK(context.to_host<double>(net.forward(tape, x).value()) ==
        context.to_host<double>(expected.value()));
}

TEST_CASE("an empty Sequential returns its input", "[module]") {
  Context context;
  Sequential net({context, DType::kFloat64, 0});
  Tape tape(context, Recording::kOff);
  const Variable x = context.from_host<double>(std::vector<double>{1, 2}, {1, 2});
  CHECK(net.forward(tape, x).value().buffer().data == x.value().buffer().data);
}

TEST_CASE("the layers of a Sequential train and evaluate with it", "[module]") {
  Context context;
  Sequential net({context, DType::kFloat64, 0});
  const Dropout& dropout = net.append<Dropout>(0.5);
  net.eval();
  CHECK_FALSE(dropout.is_training());
  net.train();
  CHECK(dropout.is_training());
}

TEST_CASE("what a parent would not know cannot be registered with its child", "[module]") {
  Context context;
  const Scope scope(context, DType::kFloat64, 0);
  Sequential net(scope.child("net"));
  net.append<Linear>(4, 3);
  Parent parent;
  parent.register_module(net);
  CHECK(names_of(parent) == std::vector<std::string>{"net.0.weight", "net.0.bias"});
  CHECK_THAT(
      test::error_of([&] { net.append<Linear>(3, 2); }),
      Contains("[nn] 'net.1.weight' is registered with a module that is a child of another"));
  CHECK(names_of(parent) == names_of(net));
  net.append(relu);  // has no parameters
}

// Equal names would mean equal masks.
TEST_CASE("two dropouts of one name are refused, as two layers are", "[module]") {
  Context context;
  const Scope scope(context, DType::kFloat64, 0);
  Dropout first(scope.child("drop")), second(scope.child("drop")), other(scope.child("other"));
  Linear fc(scope.child("fc"), 1, 1), fc_again(scope.child("fc"), 1, 1);
  Parent parent, inner;
  parent.register_module(first);
  parent.register_module(other);
  parent.register_module(fc);
  inner.register_module(second);
  const std::string advice =
      "': give each child a scope of its own, as in scope.child(\"fc2\"), and register it once";
  CHECK(test::error_of([&] { parent.register_module(fc_again); }) ==
        "[nn] two parameters are named 'fc.weight" + advice);
  CHECK(test::error_of([&] { parent.register_module(second); }) ==
        "[nn] two dropouts are named 'drop" + advice);
  CHECK(test::error_of([&] { parent.register_module(inner); }) ==
        "[nn] two dropouts are named 'drop" + advice);
  CHECK(test::error_of([&] { parent.register_module(first); }) ==
        "[nn] two dropouts are named 'drop" + advice);
  CHECK(parent.modules() == std::vector<Module*>{&parent, &first, &other, &fc});
}

TEST_CASE("random initial values need a floating-point type and a standard deviation", "[module]") {
  Context context;
  const Scope integers = Scope(context, DType::kInt64, 0).child("fc");
  const std::string expected =
      "[nn] 'fc.weight' gets random initial values, so int64 is not possible: use a floating-point "
      "type";
  CHECK(test::error_of([&] { Linear(integers, 2, 2); }) == expected);
  CHECK(test::error_of([&] { Conv2d(integers, 2, 2, 3); }) == expected);
  CHECK(test::error_of([&] { Embedding(integers, 2, 2); }) == expected);
  const Scope scope = Scope(context, DType::kBFloat16, 0).child("fc");
  const std::string range = ", but it must be finite and 0 or above";
  CHECK(test::error_of([&] { Linear(scope, 2, 2, {.stddev = -1}); }) ==
        "[nn] the standard deviation of 'fc.weight' is -1.000000" + range);
  CHECK(test::error_of([&] { Embedding(scope, 2, 2, {.stddev = std::nan("")}); }) ==
        "[nn] the standard deviation of 'fc.weight' is nan" + range);
  Embedding(scope, 2, 2, {.stddev = 0});
}
