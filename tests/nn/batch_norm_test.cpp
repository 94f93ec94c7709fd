// SPDX-License-Identifier: MIT
//
// Compares batch normalisation with real PyTorch (tests/reference/make_layer_reference.py describes
// the lines) and with central differences.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/kernels/channel_moments.h"
#include "ddp/nn/modules/batch_norm.h"
#include "support/gradients.h"
#include "support/layer_reference.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using ddp::buffer_of;
using ddp::DType;
using ddp::test::check_gradients;
using ddp::test::error_of;
using ddp::test::LayerRun;
using ddp::test::Loss;
using ddp::test::weighted_sum;

struct BatchNormCase {
  std::string name;
  Shape shape;
  BatchNormOptions options = {};
  std::size_t batches = 1;
  bool is_training = true;
};

// Trains the running statistics with several batches, and compares all results of the last batch.
template <class Layer>
void check_case(const BatchNormCase& of, DType dtype) {
  CAPTURE(of.name);
  LayerRun run(of.name, of.shape, dtype);
  Layer layer(run.scope(), of.shape[1], of.options);
  run.set_parameters(layer);
  for (std::size_t batch = 0; batch + 1 < of.batches; ++batch) {
    static_cast<void>(layer.forward(run.tape(), run.input(batch)));
  }
  layer.train(of.is_training);
  run.check_last(layer, of.batches - 1);
}

}  // namespace

TEST_CASE("BatchNorm1d and 2d equal PyTorch's, running statistics too", "[nn][torch]") {
  const DType dtype = GENERATE(DType::kFloat64, DType::kFloat32);
  check_case<BatchNorm1d>({"bn1d", {5, 3}}, dtype);
  check_case<BatchNorm1d>({"bn1d_length", {3, 2, 4}, {}, 3}, dtype);
  check_case<BatchNorm2d>({"bn2d", {4, 3, 5, 7}}, dtype);
  check_case<BatchNorm2d>({"bn2d_cumulative", {2, 3, 3, 3}, {.momentum = {}}, 3}, dtype);
  const BatchNormOptions options{.eps = 0.1, .momentum = 0.3, .affine = false};
  check_case<BatchNorm2d>({"bn2d_options", {2, 3, 4, 4}, options, 2}, dtype);
  check_case<BatchNorm2d>({"bn2d_eval", {2, 3, 4, 4}, {}, 3, false}, dtype);
  check_case<BatchNorm2d>(
      {"bn2d_untracked", {2, 3, 4, 4}, {.track_running_stats = false}, 2, false}, dtype);
}

TEST_CASE("gradients of a batch norm equal central differences, including the input's", "[nn]") {
  const bool is_training = GENERATE(true, false);
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  Parameter x = scope.uniform("x", {3, 2, 3, 3}, 1);
  BatchNorm2d layer(scope, 2);
  layer.train(is_training);
  const Loss loss = [&](Tape& tape) {
    return weighted_sum(tape, layer.forward(tape, tape.watch(x)));
  };
  check_gradients(context, loss, {&x, layer.parameters()[0], layer.parameters()[1]});
}

TEST_CASE("a variance is right even if the mean is a million times larger", "[kernels]") {
  const ddp::ChannelShape shape{.batch = 4, .channels = 2, .plane = GENERATE(1U, 7U, 1000U)};
  const double mean = GENERATE(0.0, 1e6);
  std::vector<double> x(shape.count());
  double sum = 0, squares = 0;  // of the first channel, relative to its mean, so exact
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto distance = static_cast<double>(i % 5) - 2;
    x[i] = mean + distance;
    if (i / shape.plane % shape.channels != 0) continue;
    sum += distance;
    squares += distance * distance;
  }
  std::vector<double> moments(5, std::nan(""));
  ddp::cpu::channel_moments(buffer_of(x), buffer_of(moments), shape);
  const auto n = static_cast<double>(shape.per_channel());
  CHECK(moments[4] == n);
  CHECK(moments[0] == Approx(mean + sum / n).epsilon(1e-15).margin(1e-14));
  CHECK(moments[2] == Approx(squares - sum * sum / n).epsilon(1e-13));
}

TEST_CASE("NaN and infinity stay in the moments of their channel", "[kernels]") {
  const double bad = GENERATE(std::nan(""), std::numeric_limits<double>::infinity());
  std::vector<double> x = {1, 2, bad, 4, 3, 5};
  std::vector<double> moments(5);
  ddp::cpu::channel_moments(buffer_of(x), buffer_of(moments), {3, 2, 1});
  CHECK(!std::isfinite(moments[0]));
  CHECK(std::isnan(moments[2]));
  CHECK(moments[3] == Approx(4 + 2.0 / 3));
}

TEST_CASE("merged moments of parts equal those of the whole, even with empty parts", "[kernels]") {
  const std::vector<double> x = {1, 2, 4, 8, 16, 33, 64, 127, 255, 1000, 3, 7, 5, 6, 9, 2};
  constexpr ddp::ChannelShape kShape{8, 2, 1};
  const auto moments_of = [&](std::size_t first, std::size_t batch) {
    std::vector<double> part(x.begin() + static_cast<std::ptrdiff_t>(first * 2),
                             x.begin() + static_cast<std::ptrdiff_t>((first + batch) * 2));
    std::vector<double> moments(5, std::nan(""));
    ddp::cpu::channel_moments(buffer_of(part), buffer_of(moments), {batch, 2, 1});
    return moments;
  };
  std::vector<double> parts;
  for (const auto& part :
       {moments_of(0, 3), moments_of(3, 0), moments_of(3, 1), moments_of(4, 4)}) {
    parts.insert(parts.end(), part.begin(), part.end());
  }
  std::vector<double> merged(5, std::nan(""));
  ddp::cpu::merge_moments(buffer_of(parts), buffer_of(merged));
  const std::vector<double> whole = moments_of(0, kShape.batch);
  for (std::size_t i = 0; i < whole.size(); ++i)
    CHECK(merged[i] == Approx(whole[i]).epsilon(1e-14));
}

TEST_CASE("an empty batch leaves a batch norm as it was, and its gradients are 0", "[nn]") {
  const bool is_training = GENERATE(true, false);
  Context context;
  BatchNorm2d layer(Scope(context, DType::kFloat64, 1), 3);
  layer.train(is_training);
  Tape tape(context);
  Parameter x("x", Tensor::zeros({0, 3, 2, 2}, DType::kFloat64));
  const Variable y = layer.forward(tape, tape.watch(x));
  CHECK(y.shape() == Shape{0, 3, 2, 2});
  CHECK(tape.backward(weighted_sum(tape, y)).size() == 3);
  for (Parameter* parameter : layer.parameters()) {
    CHECK(context.to_host<double>(parameter->grad()) == std::vector<double>(3, 0));
  }
  CHECK(context.to_host<double>(layer.buffers()[0].value) == std::vector<double>(3, 0));
  CHECK(context.to_host<double>(layer.buffers()[1].value) == std::vector<double>(3, 1));
  CHECK(context.to_host<std::int64_t>(layer.buffers()[2].value).front() == 0);
}

TEST_CASE("a batch norm refuses wrong inputs and says why", "[nn]") {
  Context context;
  Tape tape(context);
  const Scope scope(context, DType::kFloat32, 1);
  BatchNorm1d layer(scope, 3);
  const auto error_for = [&](const Shape& shape) {
    return error_of(
        [&] { static_cast<void>(layer.forward(tape, Tensor::zeros(shape, DType::kFloat32))); });
  };
  CHECK(error_for({2, 3, 4, 4}) ==
        "[nn] BatchNorm: the input is [2, 3, 4, 4], expected 2 to 3 dimensions");
  CHECK(error_for({2, 4}) ==
        "[nn] batch_norm: x is [2, 4], weight [3], bias [3], expected [n, channels, ...], "
        "[channels] or [0] twice");
  CHECK(error_for({1, 3}) ==
        "[nn] batch_norm: x is [1, 3], but training needs more than one element per channel: use "
        "a larger batch, leave out an incomplete last one (drop_last) or, on several ranks, use "
        "convert_sync_batchnorm, which counts the elements of all of them");
  layer.train(false);
  CHECK(error_for({1, 3}).empty());
}

TEST_CASE("in evaluation a batch norm without weights refuses other numbers of channels", "[nn]") {
  Context context;
  Tape tape(context);
  BatchNorm1d layer(Scope(context, DType::kFloat32, 1), 3, {.affine = false});
  layer.train(false);
  CHECK(error_of([&] {
          static_cast<void>(layer.forward(tape, Tensor::zeros({2, 2}, DType::kFloat32)));
        }) ==
        "[nn] batch_norm: x is [2, 2], mean [3], variance [3], expected [n, channels, ...], "
        "[channels] twice");
}

TEST_CASE("a batch norm refuses an eps below 0, and a momentum that is no share", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat32, 1);
  const auto error_for = [&](double eps, double momentum = 1) {
    return error_of([&] { const BatchNorm1d layer(scope, 3, {.eps = eps, .momentum = momentum}); });
  };
  CHECK(error_for(1, 2) == "[nn] BatchNorm: momentum is 2.000000, expected 0 to 1");
  CHECK(error_for(1, std::nan("")) == "[nn] BatchNorm: momentum is nan, expected 0 to 1");
  CHECK(error_for(-0.5) ==
        "[nn] BatchNorm: eps is -0.500000, but it must be finite and 0 or above");
  CHECK(error_for(std::nan("")) ==
        "[nn] BatchNorm: eps is nan, but it must be finite and 0 or above");
  CHECK(error_for(0).empty());
}

TEST_CASE("the operation of a batch norm checks eps and momentum as the module does", "[nn]") {
  Context context;
  Tape tape(context, Recording::kOff);
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::kFloat32); };
  const auto error_for = [&](double eps, double momentum = 1) {
    return error_of([&] {
      static_cast<void>(batch_norm(tape, zeros({2, 3}), zeros({3}), zeros({3}),
                                   {.eps = eps, .momentum = momentum}));
    });
  };
  CHECK(error_for(-1) == "[nn] batch_norm: eps is -1.000000, but it must be finite and 0 or above");
  CHECK(error_for(1, 5) == "[nn] batch_norm: momentum is 5.000000, expected 0 to 1");
  CHECK(error_for(1).empty());
  CHECK(error_of([&] {
          static_cast<void>(batch_norm_inference(tape, zeros({2, 3}), zeros({3}), zeros({3}),
                                                 zeros({3}), zeros({3}), -1));
        }) == "[nn] batch_norm: eps is -1.000000, but it must be finite and 0 or above");
}

TEST_CASE("modules know their children, their mode and their state", "[nn]") {
  struct Pair final : Module {
    explicit Pair(const Scope& scope)
        : first(scope.child("first"), 2), second(scope.child("second"), 2) {
      register_module(first);
      register_module(second);
    }
    Variable forward(Tape& tape, const Variable& input) override {
      return second.forward(tape, first.forward(tape, input));
    }
    BatchNorm1d first, second;
  };
  Context context;
  Pair pair(Scope(context, DType::kFloat32, 1).child("pair"));
  CHECK(pair.modules() == std::vector<Module*>{&pair, &pair.first, &pair.second});
  CHECK(pair.second.is_training());
  pair.train(false);
  CHECK_FALSE(pair.is_training());
  CHECK_FALSE(pair.second.is_training());
  pair.train();
  CHECK(pair.second.is_training());
  std::string names;
  for (const NamedTensor& tensor : pair.state_dict()) {
    names += tensor.name + to_string(tensor.value.shape()) + " ";
  }
  CHECK(names ==
        "pair.first.weight[2] pair.first.bias[2] pair.second.weight[2] pair.second.bias[2] "
        "pair.first.running_mean[2] pair.first.running_var[2] pair.first.num_batches_tracked[] "
        "pair.second.running_mean[2] pair.second.running_var[2] "
        "pair.second.num_batches_tracked[] ");
  CHECK(pair.state_dict().back().value.dtype() == DType::kInt64);
}
