// SPDX-License-Identifier: MIT
//
// Compares a small GPT-2 with real PyTorch; tests/reference/make_transformer_reference.py describes
// what PyTorch ran.
#include "ddp/nn/models/gpt.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/ops.h"
#include "support/gradients.h"
#include "support/layer_reference.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using Catch::Matchers::Contains;
using ddp::DType;
using ddp::test::difference;
using ddp::test::error_of;
using ddp::test::reference_draws;
using ddp::test::to_doubles;
using ddp::test::to_tensor;

constexpr GptOptions kSmall{.vocabulary = 11, .context = 6, .layers = 2, .heads = 2, .width = 8};
constexpr std::size_t kRows = 3, kTokens = 5;

Tensor tokens_of(Context& context, const Shape& shape) {
  std::vector<std::int64_t> tokens(shape.count());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int64_t>(5 * i * i % 11);
  }
  return context.from_host(tokens, shape);
}

Tensor labels_of(Context& context, std::size_t count) {
  std::vector<std::int64_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int64_t>(3 * i % 11);
  return context.from_host(labels, {count});
}

void set_reference_values(Context& context, Gpt& model, DType dtype) {
  for (const Parameter* parameter : model.parameters()) {
    const Shape& shape = parameter->value().shape();
    const std::vector<double> draws = reference_draws(parameter->name(), 0, shape.count());
    ddp::copy(to_tensor(context, draws, shape, dtype).buffer(), parameter->value().buffer());
  }
}

struct Pass {
  std::vector<double> logits, loss;
  std::vector<std::vector<double>> gradients;
};

Pass run(Context& context, Gpt& model, std::optional<DType> autocast = {}) {
  Tape tape(context, Recording::kOn, autocast);
  const Variable logits = model.forward(tape, tokens_of(context, {kRows, kTokens}));
  const Variable loss = softmax_cross_entropy(tape, logits, labels_of(context, kRows * kTokens));
  Pass pass;
  pass.loss = to_doubles(context, loss.value());
  if (!autocast) pass.logits = to_doubles(context, logits.value());
  REQUIRE(tape.backward(loss).size() == model.parameters().size());
  for (Parameter* parameter : model.parameters()) {
    pass.gradients.push_back(to_doubles(context, parameter->grad()));
    parameter->clear_grad();
  }
  return pass;
}

}  // namespace

TEST_CASE("logits, loss and gradients of a GPT equal PyTorch's", "[nn][torch]") {
  const auto [dtype, tolerance] =
      GENERATE(std::pair(DType::kFloat64, 1e-12), std::pair(DType::kFloat32, 1e-5));
  const auto reference =
      ddp::test::read_reference(DDP_REFERENCE_DIR "/transformer_reference.txt", 2);
  Context context;
  Gpt model({context, dtype, 1}, kSmall);
  set_reference_values(context, model, dtype);
  const Pass pass = run(context, model);
  CHECK(difference(pass.logits, reference.at("gpt logits")) <= tolerance);
  CHECK(pass.loss[0] == Approx(reference.at("gpt loss")[1]).epsilon(tolerance));
  for (std::size_t i = 0; i < pass.gradients.size(); ++i) {
    const std::string& name = model.parameters()[i]->name();
    CAPTURE(name);
    CHECK(difference(pass.gradients[i], reference.at("gpt " + name)) <= tolerance);
  }
}

TEST_CASE("gradients of a GPT equal central differences, dropout included", "[nn]") {
  const double dropout = GENERATE(0.0, 0.3);
  Context context;
  GptOptions options = kSmall;
  options.dropout = dropout;
  Gpt model({context, DType::kFloat64, 1}, options);
  set_reference_values(context, model, DType::kFloat64);
  const Tensor tokens = tokens_of(context, {2, 4}), labels = labels_of(context, 8);
  const ddp::test::Loss loss = [&](Tape& tape) {
    tape.set_random_key({.seed = 1, .step = 2});
    return softmax_cross_entropy(tape, model.forward(tape, tokens), labels);
  };
  ddp::test::check_gradients(context, loss, {model.parameters().begin(), model.parameters().end()},
                             7);
}

TEST_CASE("a GPT in mixed precision has the gradients of float32, to 16 bits", "[nn]") {
  const auto [narrow, tolerance] =
      GENERATE(std::pair(DType::kBFloat16, 0.1), std::pair(DType::kFloat16, 0.02));
  Context context;
  Gpt model({context, DType::kFloat32, 1}, kSmall);
  const Pass exact = run(context, model), mixed = run(context, model, narrow);
  CHECK(mixed.loss[0] == Approx(exact.loss[0]).epsilon(tolerance));
  for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
    CAPTURE(model.parameters()[i]->name());
    CHECK(ddp::test::relative_difference(exact.gradients[i], mixed.gradients[i]) <= tolerance);
  }
}

TEST_CASE("a token's logits do not depend on later tokens", "[nn]") {
  Context context;
  Gpt model({context, DType::kFloat64, 1}, kSmall);
  Tape tape(context, Recording::kOff);
  const std::vector<std::int64_t> tokens = {1, 2, 3, 4, 5};
  const auto logits = [&](std::size_t count) {
    const Tensor first = context.from_host(std::span(tokens).first(count), {std::size_t{1}, count});
    return to_doubles(context, model.forward(tape, first).value());
  };
  const std::vector<double> all = logits(5);
  for (std::size_t count = 1; count < 5; ++count) {
    const std::vector<double> some = logits(count);
    for (std::size_t i = 0; i < some.size(); ++i) CHECK(some[i] == Approx(all[i]).epsilon(1e-13));
  }
}

TEST_CASE("each dropout of a GPT's blocks draws for itself, and none in evaluation", "[nn]") {
  // Attention to ones, and fully connected layers whose result is 4.
  constexpr std::size_t kOnes = 4, kWidth = 16, kHeads = 2, kChannels = kWidth / kHeads;
  Context context;
  const auto outputs = [&](const char* name, bool is_training) {
    GptBlock block(Scope(context, DType::kFloat64, 1).child(name),
                   {.heads = kHeads, .width = kWidth, .dropout = 0.5});
    for (Parameter* parameter : block.parameters()) {
      const std::string& full = parameter->name();
      const bool is_projection = full.ends_with("attn.c_proj.weight");
      const std::span<double> values = parameter->value().buffer().as<double>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = is_projection                       ? i % (kWidth + 1) == 0
                    : full.ends_with("c_attn.bias")     ? 1
                    : full.ends_with("mlp.c_proj.bias") ? 4
                                                        : 0;
      }
    }
    is_training ? block.train() : block.eval();
    Tape tape(context);
    if (is_training) tape.set_random_key({.seed = 1, .step = 2});
    return to_doubles(
        context, block.forward(tape, Tensor::zeros({1, kOnes, kWidth}, DType::kFloat64)).value());
  };
  CHECK(outputs("h.0", false) == std::vector<double>(kOnes * kWidth, 5));

  // What is left of 1, by token and head, if any of its channels is; and how often only that is.
  struct Left {
    std::vector<double> weights = std::vector<double>(kOnes * kHeads);
    int alone = 0;
  };
  const auto left_in = [&](const char* name) {
    Left left;
    const std::vector<double> all = outputs(name, true);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double attended = all[i] < 8 ? all[i] : all[i] - 8;
      double& weight = left.weights[i / kChannels];
      weight = std::max(weight, attended);
      left.alone += attended > 0 && all[i] < 8;
    }
    return left;
  };
  CHECK(left_in("h.0").alone > 0);
  CHECK(left_in("h.0").weights != left_in("h.1").weights);
}

TEST_CASE("a GPT without samples has a loss and gradients of 0", "[nn]") {
  Context context;
  Gpt model({context, DType::kFloat64, 1}, kSmall);
  Tape tape(context);
  const Variable loss = softmax_cross_entropy(
      tape, model.forward(tape, tokens_of(context, {0, kTokens})), labels_of(context, 0));
  CHECK(to_doubles(context, loss.value()) == std::vector<double>{0});
  CHECK(tape.backward(loss).size() == model.parameters().size());
  for (Parameter* parameter : model.parameters()) {
    for (const double g : parameter->grad().buffer().as<double>()) CHECK(g == 0);
  }
}

TEST_CASE("a GPT starts as GPT-2 does, with Hugging Face's names", "[nn]") {
  Context context;
  const GptOptions options{
      .vocabulary = 97, .context = 32, .layers = 8, .heads = 4, .width = 64, .dropout = 0.1};
  Gpt model(Scope(context, DType::kFloat64, 1).child("transformer"), options);
  std::string names;
  for (Parameter* parameter : model.parameters()) {
    CAPTURE(parameter->name());
    names += parameter->name() + " ";
    const std::vector<double> values = context.to_host<double>(parameter->value());
    double squares = 0;
    for (const double value : values) squares += value * value;
    const double measured = std::sqrt(squares / static_cast<double>(values.size()));
    const bool is_matrix = parameter->value().shape().rank() == 2;
    const bool is_residual = parameter->name().ends_with("c_proj.weight");
    const bool is_norm = parameter->name().find("ln_") != std::string::npos;
    const bool is_bias = parameter->name().ends_with(".bias");
    const double stddev = is_residual ? 0.02 / 4 : is_matrix ? 0.02 : is_norm && !is_bias ? 1 : 0;
    CHECK(measured == Approx(stddev).epsilon(0.05));
  }
  CHECK_THAT(names, Contains("transformer.wte.weight transformer.wpe.weight "
                             "transformer.h.0.ln_1.weight transformer.h.0.ln_1.bias "
                             "transformer.h.0.attn.c_attn.weight ") &&
                        Contains("transformer.h.7.attn.c_proj.bias ") &&
                        Contains("transformer.h.7.mlp.c_fc.weight ") &&
                        Contains("transformer.ln_f.bias "));
  CHECK(model.parameters().size() == 2 + 8 * 12 + 2);
}

TEST_CASE("GPT refuses sizes and inputs that do not fit, and names them", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat32, 1);
  CHECK(error_of([&] { Gpt(scope, {.vocabulary = 5, .layers = 1, .heads = 5, .width = 8}); }) ==
        "[nn] Gpt: 5 heads do not divide a width of 8");
  Gpt model(scope, kSmall);
  Tape tape(context);
  const auto error_for = [&](const Tensor& input) {
    return error_of([&] { static_cast<void>(model.forward(tape, input)); });
  };
  CHECK(error_for(tokens_of(context, {2, 7})) ==
        "[nn] Gpt: the input is int64 [2, 7], expected int64 [n, tokens] with at most 6 tokens");
  CHECK_THAT(error_for(Tensor::zeros({2, 3}, DType::kFloat32)), Contains("is float32 [2, 3]"));
  CHECK_THAT(error_for(tokens_of(context, {6})), Contains("is int64 [6]"));
}
