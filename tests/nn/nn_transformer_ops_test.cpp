// SPDX-License-Identifier: MIT
//
// Compares the operations of transformers with real PyTorch
// (tests/reference/make_transformer_reference.py describes what it ran) and with central
// differences.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ddp/nn/modules/embedding.h"
#include "ddp/nn/modules/layer_norm.h"
#include "ddp/nn/ops.h"
#include "support/gradients.h"
#include "support/layer_reference.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using Catch::Matchers::Contains;
using ddp::DType;
using ddp::test::check_gradients;
using ddp::test::difference;
using ddp::test::error_of;
using ddp::test::reference_draws;
using ddp::test::to_tensor;
using ddp::test::weighted_sum;
using Doubles = std::vector<double>;

using Operands = std::vector<Variable>;

struct Operand {
  std::string name;
  Shape shape;
};

struct Case {
  std::string name;  // of its lines in the reference
  std::vector<Operand> operands;
  std::function<Variable(Tape&, const Operands&)> run;
};

Tensor indices_of(Context& context, const Shape& shape) {
  std::vector<std::int64_t> indices(shape.count());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<std::int64_t>(3 * i % 7);
  }
  return context.from_host(indices, shape);
}

Variable attend(Tape& tape, const Operands& o, bool is_causal) {
  return scaled_dot_product_attention(tape, o[0], o[1], o[2], {.is_causal = is_causal});
}

const std::vector<Case> kCases{
    {"linear",
     {{"x", {2, 3, 4}}, {"weight", {5, 4}}, {"bias", {5}}},
     [](Tape& tape, const Operands& o) { return linear(tape, o[0], o[1], o[2]); }},
    {"linear_no_bias",
     {{"x", {2, 3, 4}}, {"weight", {5, 4}}},
     [](Tape& tape, const Operands& o) { return linear(tape, o[0], o[1]); }},
    {"matmul",
     {{"a", {2, 3, 4, 5}}, {"b", {2, 3, 5, 6}}},
     [](Tape& tape, const Operands& o) { return matmul(tape, o[0], o[1]); }},
    {"add",
     {{"a", {3, 4, 5}}, {"b", {4, 5}}},
     [](Tape& tape, const Operands& o) { return add(tape, o[0], o[1]); }},
    {"transpose",
     {{"x", {2, 3, 4, 5}}},
     [](Tape& tape, const Operands& o) { return transpose(tape, o[0], 3, 1); }},
    {"layer_norm",
     {{"x", {2, 3, 9}}, {"weight", {9}}, {"bias", {9}}},
     [](Tape& tape, const Operands& o) { return layer_norm(tape, o[0], o[1], o[2]); }},
    {"layer_norm_eps",
     {{"x", {4, 3, 5}}, {"weight", {3, 5}}, {"bias", {3, 5}}},
     [](Tape& tape, const Operands& o) { return layer_norm(tape, o[0], o[1], o[2], 0.1); }},
    {"softmax",
     {{"x", {2, 3, 7}}},
     [](Tape& tape, const Operands& o) { return softmax(tape, mul(tape, o[0], 8)); }},
    {"log_softmax",
     {{"x", {2, 3, 7}}},
     [](Tape& tape, const Operands& o) { return log_softmax(tape, mul(tape, o[0], 8)); }},
    {"embedding",
     {{"weight", {8, 6}}},
     [](Tape& tape, const Operands& o) {
       return embedding(tape, indices_of(tape.context(), {4, 5}), o[0]);
     }},
    {"attention",
     {{"q", {2, 3, 5, 4}}, {"k", {2, 3, 6, 4}}, {"v", {2, 3, 6, 7}}},
     [](Tape& tape, const Operands& o) { return attend(tape, o, false); }},
    {"attention_causal",
     {{"q", {2, 3, 5, 4}}, {"k", {2, 3, 5, 4}}, {"v", {2, 3, 5, 4}}},
     [](Tape& tape, const Operands& o) { return attend(tape, o, true); }},
};

// The operands of a case, held by pointers because a Parameter can be neither copied nor moved.
using Parameters = std::vector<std::unique_ptr<Parameter>>;

Parameters operands_of(Context& context, const Case& which, DType dtype) {
  Parameters operands;
  for (const auto& [name, shape] : which.operands) {
    const Doubles values = reference_draws(which.name + " " + name, 0, shape.count());
    operands.push_back(std::make_unique<Parameter>(name, to_tensor(context, values, shape, dtype)));
  }
  return operands;
}

Operands watch(Tape& tape, const Parameters& parameters) {
  Operands operands;
  for (const auto& parameter : parameters) operands.push_back(tape.watch(*parameter));
  return operands;
}

std::vector<Parameter*> pointers_to(const Parameters& parameters) {
  std::vector<Parameter*> pointers;
  for (const auto& parameter : parameters) pointers.push_back(parameter.get());
  return pointers;
}

}  // namespace

TEST_CASE("the operations of transformers and their gradients equal PyTorch's", "[nn][torch]") {
  const DType dtype = GENERATE(DType::kFloat64, DType::kFloat32);
  const double tolerance = dtype == DType::kFloat64 ? 1e-12 : 1e-5;
  const auto reference =
      ddp::test::read_reference(DDP_REFERENCE_DIR "/transformer_reference.txt", 2);
  Context context;
  for (const Case& each : kCases) {
    Tape tape(context);
    const Parameters parameters = operands_of(context, each, dtype);
    const auto check = [&](const std::string& what, const Tensor& tensor) {
      CAPTURE(each.name, what);
      const Doubles values = ddp::test::to_doubles(context, tensor);
      CHECK(difference(values, reference.at(each.name + " " + what)) <= tolerance);
    };
    const Variable y = each.run(tape, watch(tape, parameters));
    check("y", y.value());
    static_cast<void>(tape.backward(weighted_sum(tape, y, each.name + " grad")));
    for (const auto& parameter : parameters) check("grad_" + parameter->name(), parameter->grad());
  }
}

TEST_CASE("gradients of the operations of transformers equal central differences", "[nn]") {
  Context context;
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    const Parameters parameters = operands_of(context, each, DType::kFloat64);
    // Operands are used twice, so that gradients accumulate.
    check_gradients(
        context,
        [&](Tape& tape) {
          const Operands operands = watch(tape, parameters);
          const Variable y = each.run(tape, operands);
          return weighted_sum(tape, add(tape, square(tape, y), each.run(tape, operands)));
        },
        pointers_to(parameters));
  }
}

TEST_CASE("products run in 16 bits under autocast, layer norms and softmax in float32", "[nn]") {
  const DType narrow = GENERATE(DType::kBFloat16, DType::kFloat16);
  Context context;
  Tape tape(context, Recording::kOff, narrow);
  const Tensor x = Scope(context, DType::kFloat32, 1).uniform("x", {2, 4, 4}, 1).value();
  const Tensor one = Tensor::zeros({4}, DType::kFloat32);
  const Variable product = matmul(tape, x, x);
  CHECK(product.value().dtype() == narrow);
  CHECK(linear(tape, x, x.reshaped({8, 4})).value().dtype() == narrow);
  CHECK(transpose(tape, product, 0, 1).value().dtype() == narrow);
  CHECK(softmax(tape, product).value().dtype() == DType::kFloat32);
  CHECK(layer_norm(tape, product, one, one).value().dtype() == DType::kFloat32);
  CHECK(scaled_dot_product_attention(tape, x, x, x).value().dtype() == narrow);
  CHECK(embedding(tape, indices_of(context, {1}), x.reshaped({8, 4})).value().dtype() ==
        DType::kFloat32);
}

TEST_CASE("attention under autocast equals that in float32 to 16 bits, as do its gradients",
          "[nn]") {
  const DType narrow = GENERATE(DType::kBFloat16, DType::kFloat16);
  const double rounding = narrow == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
  Context context;
  const Case& attention = kCases.back();
  const auto run = [&](std::optional<DType> autocast) {
    const Parameters parameters = operands_of(context, attention, DType::kFloat32);
    Tape tape(context, Recording::kOn, autocast);
    const Variable y = attention.run(tape, watch(tape, parameters));
    static_cast<void>(tape.backward(sum(tape, square(tape, y))));
    std::vector<Doubles> results;
    for (const auto& each : parameters) {
      results.push_back(ddp::test::to_doubles(context, each->grad()));
    }
    return results;
  };
  const std::vector<Doubles> exact = run({}), mixed = run(narrow);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = ddp::test::relative_difference(exact[i], mixed[i]);
    CHECK(error > 0);
    CHECK(error < 8 * rounding);
  }
}

TEST_CASE("attention weights are dropped as dropout() drops them", "[nn]") {
  Context context;
  Tape tape(context, Recording::kOff);
  const RandomKey key{.seed = 1, .step = 2, .first_row = 1, .row_stride = 3};
  tape.set_random_key(key);
  const Tensor zeros = Tensor::zeros({3, 2, 5, 4}, DType::kFloat64);  // so all weights are 1/5
  Doubles identity;
  for (std::size_t i = 0; i < 3 * 2 * 5 * 5; ++i) identity.push_back(i / 5 % 5 == i % 5 ? 1 : 0);
  const Tensor v = context.from_host(identity, {3, 2, 5, 5});
  const Variable y =
      scaled_dot_product_attention(tape, zeros, zeros, v, {.dropout_p = 0.4, .layer = 7});
  const Tensor weights = softmax(tape, Tensor::zeros({3, 2, 5, 5}, DType::kFloat64)).value();
  CHECK(context.to_host<double>(y.value()) ==
        context.to_host<double>(dropout(tape, weights, 0.4, 7).value()));
  for (const double wrong : {-0.5, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(scaled_dot_product_attention(tape, zeros, zeros, v, {.dropout_p = wrong}),
                    std::invalid_argument);
  }
}

TEST_CASE("an empty batch has empty results and gradients of 0", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  Parameter weight = scope.uniform("weight", {4, 4}, 1), bias = scope.uniform("bias", {4}, 1);
  Tape tape(context);
  const Variable rows = embedding(tape, indices_of(context, {0, 3}), tape.watch(weight));
  const Variable x =
      layer_norm(tape, add(tape, rows, tape.watch(bias)), tape.watch(bias), tape.watch(bias));
  const Variable y =
      scaled_dot_product_attention(tape, x, x, transpose(tape, x, 1, 1), {.is_causal = true});
  const Variable loss =
      mean(tape, linear(tape, transpose(tape, y, 1, 2).reshaped({0, 3, 4}), tape.watch(weight)));
  CHECK(context.to_host<double>(loss.value()) == Doubles{0});
  CHECK(tape.backward(loss).size() == 2);
  CHECK(context.to_host<double>(weight.grad()) == Doubles(16, 0));
  CHECK(context.to_host<double>(bias.grad()) == Doubles(4, 0));
}

TEST_CASE("a dimension exchanged with itself changes nothing", "[nn]") {
  Context context;
  Tape tape(context, Recording::kOff);
  const Doubles values = {1, 2, 3, 4, 5, 6};
  const Variable y = transpose(tape, context.from_host(values, {2, 3}), 1, 1);
  CHECK(y.shape() == Shape{2, 3});
  CHECK(context.to_host<double>(y.value()) == values);
}

TEST_CASE("attention without queries is empty, and without keys 0, with gradients of 0", "[nn]") {
  const auto [queries, keys] = GENERATE(std::pair<std::size_t, std::size_t>(0, 3),
                                        std::pair<std::size_t, std::size_t>(3, 0));
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  Parameter q = scope.uniform("q", {2, queries, 4}, 1), k = scope.uniform("k", {2, keys, 4}, 1),
            v = scope.uniform("v", {2, keys, 4}, 1);
  Tape tape(context);
  const Variable y =
      scaled_dot_product_attention(tape, tape.watch(q), tape.watch(k), tape.watch(v));
  CHECK(context.to_host<double>(y.value()) == Doubles(2 * queries * 4, 0));
  CHECK(tape.backward(sum(tape, y)).size() == 3);
  for (Parameter* parameter : {&q, &k, &v}) {
    const std::vector<double> gradient = context.to_host<double>(parameter->grad());
    CHECK(gradient == Doubles(parameter->value().count(), 0));
  }
}

TEST_CASE("an Embedding is drawn from the normal distribution, a LayerNorm starts as none",
          "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat32, 3);
  Embedding table(scope.child("wte"), 500, 40, {.stddev = 0.5});
  double sum = 0, squares = 0;
  for (const float value : table.weight().value().buffer().as<float>()) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  CHECK(sum / 20000 == Approx(0).margin(0.02));
  CHECK(squares / 20000 == Approx(0.25).epsilon(0.05));
  CHECK(table.parameters()[0]->name() == "wte.weight");
  CHECK(scope.normal("w", {1}, 2).value().buffer().as<float>()[0] ==
        static_cast<float>(2 * ddp::random_normal(3, ddp::stream_of("w"), 0)));

  Tape tape(context, Recording::kOff);
  CHECK(table.forward(tape, indices_of(context, {2, 3})).shape() == Shape{2, 3, 40});
  LayerNorm norm(scope.child("ln"), 2);
  const std::vector<float> far = {3, 5};
  const Variable y = norm.forward(tape, context.from_host(far, {1, 2}));
  CHECK(context.to_host<float>(y.value())[0] == Approx(-1).epsilon(1e-5));
  CHECK(context.to_host<float>(y.value())[1] == Approx(1).epsilon(1e-5));
  CHECK(norm.parameters()[1]->name() == "ln.bias");
}

TEST_CASE("a layer norm refuses an eps below 0", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat32, 1);
  const auto error_for = [&](double eps) {
    return error_of([&] { const LayerNorm layer(scope, 3, eps); });
  };
  CHECK(error_for(-0.5) ==
        "[nn] LayerNorm: eps is -0.500000, but it must be finite and 0 or above");
  CHECK(error_for(std::nan("")) ==
        "[nn] LayerNorm: eps is nan, but it must be finite and 0 or above");
  CHECK(error_for(0).empty());
}

TEST_CASE("the operation of a layer norm refuses an eps below 0, too", "[nn]") {
  Context context;
  Tape tape(context, Recording::kOff);
  const Tensor row = Tensor::zeros({3}, DType::kFloat32);
  CHECK(error_of([&] { static_cast<void>(layer_norm(tape, row, row, row, -1)); }) ==
        "[nn] layer_norm: eps is -1.000000, but it must be finite and 0 or above");
}

TEST_CASE("the operations of transformers name shapes that do not fit", "[nn]") {
  Context context;
  Tape tape(context);
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::kFloat32); };
  CHECK(error_of([&] {
          static_cast<void>(matmul(tape, zeros({2, 3, 4}), zeros({3, 4, 5})));
        }) == "[nn] matmul: a is [2, 3, 4], b [3, 4, 5], expected [..., m, k] and [..., k, n]");
  CHECK_THAT(error_of([&] {
               static_cast<void>(matmul(tape, zeros({3, 4}), zeros({3, 4})));
             }),
             Contains("a is [3, 4], b [3, 4]"));
  CHECK(error_of([&] {
          static_cast<void>(linear(tape, zeros({}), zeros({3, 4})));
        }) ==
        "[nn] linear: x is [], weight [3, 4], bias none, expected [..., in], [out, in], [out]");
  CHECK(error_of([&] {
          static_cast<void>(layer_norm(tape, zeros({2, 3}), zeros({3}), zeros({2})));
        }) ==
        "[nn] layer_norm: x is [2, 3], weight [3], bias [2], expected the last dimensions of x "
        "twice");
  CHECK(error_of([&] {
          static_cast<void>(transpose(tape, zeros({2, 3}), 2, 0));
        }) == "[nn] transpose: x is [2, 3], which has no dimension 2");
  CHECK(error_of([&] {
          static_cast<void>(embedding(tape, indices_of(context, {2}), zeros({7})));
        }) == "[nn] embedding: the weight is [7], expected [count, width]");
  const auto attend_causally = [&](const Shape& q, const Shape& k, const Shape& v) {
    static_cast<void>(
        scaled_dot_product_attention(tape, zeros(q), zeros(k), zeros(v), {.is_causal = true}));
  };
  CHECK(error_of([&] {
          attend_causally({2, 3, 4}, {2, 5, 4}, {2, 5, 4});
        }) ==
        "[nn] scaled_dot_product_attention: q is [2, 3, 4], k [2, 5, 4], v [2, 5, 4], expected "
        "[..., queries, width], [..., keys, width], [..., keys, any] and, if causal, as many "
        "queries as keys");
  CHECK_THAT(error_of([&] {
               attend_causally({2, 3, 4}, {2, 3, 4}, {2, 4, 4});
             }),
             Contains("v [2, 4, 4]"));
  CHECK_THAT(error_of([&] { static_cast<void>(softmax(tape, zeros({}))); }),
             Contains("a scalar has no rows"));
  CHECK_THAT(error_of([&] {
               static_cast<void>(add(tape, zeros({2, 3}), zeros({2})));
             }),
             Contains("a is [2, 3], b [2]"));
}
