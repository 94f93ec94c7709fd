// SPDX-License-Identifier: MIT
//
// Compares optimizers with real PyTorch; tests/reference/make_optimizer_reference.py describes what
// it ran. learning_rate_test.cpp has the schedules of their learning rates.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/optim/adam.h"
#include "ddp/nn/optim/clip_grad_norm.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/optim/weight_average.h"
#include "ddp/nn/scope.h"
#include "support/optimizer_reference.h"
#include "support/reference.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using Catch::Matchers::Contains;
using ddp::AdamStep;
using ddp::DType;
using ddp::SgdStep;
using ddp::WeightDecay;
using ddp::test::error_of;
using ddp::test::optimizers::kSeed;
using ddp::test::optimizers::reference;

constexpr double kMaxNorm = 1.5;

// The two parameters of the reference, and their gradients.
struct Pair {
  explicit Pair(DType dtype = DType::kFloat64)
      : w(Scope(context, dtype, kSeed).uniform("w", {3, 5}, 1)),
        b(Scope(context, dtype, kSeed).uniform("b", {7}, 1)) {}

  void write_gradients(std::size_t step, double factor = 1) {
    write_gradient(w, step, factor);
    if (step % 7 != 3) write_gradient(b, step, factor);
  }

  Context context;
  Parameter w, b;
  Parameter* const both[2] = {&w, &b};

 private:
  static void write_gradient(Parameter& parameter, std::size_t step, double factor) {
    const ddp::Buffer& grad = parameter.grad().buffer();
    const auto stream = ddp::stream_of("grad " + parameter.name());
    for (std::size_t i = 0; i < grad.count; ++i) {
      const double value =
          factor * (2 * ddp::random_unit(kSeed, stream, step * grad.count + i) - 1);
      if (grad.dtype == DType::kFloat64) {
        grad.as<double>()[i] = value;
      } else {
        grad.as<float>()[i] = static_cast<float>(value);
      }
    }
    parameter.mark_grad_written();
  }
};

using Make = std::function<std::unique_ptr<Optimizer>(Pair&)>;

Make sgd(double momentum, bool nesterov = false) {
  const SgdStep options{0.05, momentum, 0.01, nesterov};
  return [options](Pair& pair) { return std::make_unique<Sgd>(pair.context, pair.both, options); };
}

Make adam(const AdamStep& options) {
  return [options](Pair& pair) { return std::make_unique<Adam>(pair.context, pair.both, options); };
}

const AdamStep kAdamWStep{
    .learning_rate = 0.01, .weight_decay = 0.1, .decay = WeightDecay::kDecoupled};
const Make kAdamW = adam(kAdamWStep);

std::unique_ptr<Optimizer> adamw_with_groups(Pair& pair) {
  const DecaySplit split = split_by_decay(pair.both);
  const AdamStep does_not{.learning_rate = 0.01};
  return std::make_unique<Adam>(
      pair.context, std::vector<ParameterGroup<AdamStep>>{{split.decayed, kAdamWStep},
                                                          {split.not_decayed, does_not}});
}

struct Case {
  std::string name;
  Make make;
};

const std::vector<Case> kCases = {
    {"sgd", sgd(0)},
    {"sgd_momentum", sgd(0.9)},
    {"sgd_nesterov", sgd(0.9, true)},
    {"adam",
     adam({.learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.01})},
    {"adamw", kAdamW},
    {"adamw_clipped", kAdamW},
    {"adamw_groups", adamw_with_groups},
};

// Runs steps [first, end) with gradients that are four times too large, and a scale that corrects
// this.
void run(const Case& each, Pair& pair, Optimizer& optimizer, std::size_t first, std::size_t end) {
  const double scale = 0.25;
  for (std::size_t step = first; step < end; ++step) {
    pair.write_gradients(step, 4);
    if (each.name != "adamw_clipped") {
      optimizer.step(&scale);
      continue;
    }
    const ClippedNorm clipped = clip_grad_norm(pair.context, pair.both, kMaxNorm, &scale);
    if (pair.w.value().dtype() == DType::kFloat64) {
      const double norm = pair.context.to_host<double>(clipped.norm).front();
      CHECK(norm == Approx(reference().at("adamw_clipped norm")[2 * step + 1]).epsilon(1e-13));
    }
    optimizer.step(clipped.grad_scale());
  }
}

}  // namespace

TEST_CASE("fifty steps of each optimizer equal PyTorch's to 1e-12, including the state",
          "[optim][torch]") {
  const Case& each = GENERATE(from_range(kCases));
  CAPTURE(each.name);
  Pair pair;
  const auto optimizer = each.make(pair);
  run(each, pair, *optimizer, 0, 50);
  std::vector<NamedTensor> tensors = optimizer->state();
  REQUIRE(tensors.back().name == "learning_rate");  // PyTorch has it elsewhere
  tensors.pop_back();
  for (const Parameter* parameter : pair.both) {
    tensors.push_back({parameter->name(), parameter->value()});
  }
  for (const NamedTensor& tensor : tensors) {
    CAPTURE(tensor.name);
    const std::vector<double>& line = reference().at(each.name + " " + tensor.name);
    if (tensor.value.dtype() == DType::kInt64) {
      CHECK(pair.context.to_host<std::int64_t>(tensor.value) ==
            std::vector{static_cast<std::int64_t>(line[1])});
    } else {
      CHECK(ddp::test::difference(pair.context.to_host<double>(tensor.value), line) < 1e-12);
    }
  }
}

TEST_CASE("in float32 fifty steps equal PyTorch's float64 ones to 1e-5", "[optim][torch]") {
  const Case& each = GENERATE(from_range(kCases));
  CAPTURE(each.name);
  Pair pair(DType::kFloat32);
  const auto optimizer = each.make(pair);
  run(each, pair, *optimizer, 0, 50);
  for (const Parameter* parameter : pair.both) {
    const auto values = ddp::test::to_doubles(pair.context, parameter->value());
    CHECK(ddp::test::difference(values, reference().at(each.name + " " + parameter->name())) <
          1e-5);
  }
}

TEST_CASE("averages of fifty steps' weights equal those of PyTorch's AveragedModel",
          "[optim][torch]") {
  const bool is_plain = GENERATE(false, true);
  const std::string name = is_plain ? "swa" : "ema";
  Pair pair;
  const auto optimizer = kCases[0].make(pair);
  WeightAverage average(pair.context, pair.both,
                        {.decay = is_plain ? std::nullopt : std::optional(0.9)});
  for (std::size_t step = 0; step < 50; ++step) {
    run(kCases[0], pair, *optimizer, step, step + 1);
    average.update();
  }
  const auto values = [&](const Parameter& of) { return pair.context.to_host<double>(of.value()); };
  const std::vector<double> last = values(pair.w);
  average.swap();
  CHECK(ddp::test::difference(values(pair.w), reference().at(name + " w")) < 1e-12);
  CHECK(ddp::test::difference(values(pair.b), reference().at(name + " b")) < 1e-12);
  CHECK_THAT(error_of([&] { average.update(); }), Contains("update: the parameters hold the"));
  CHECK_THAT(error_of([&] { (void)average.state(); }), Contains("call swap() once more"));
  average.swap();
  CHECK(values(pair.w) == last);
}

TEST_CASE("a weight average with restored state continues exactly", "[optim]") {
  const auto train = [](Pair& pair, WeightAverage& average, int first, int end) {
    for (int step = first; step < end; ++step) {
      ddp::fill(pair.w.value().buffer(), step * step);
      average.update();
    }
  };
  Pair pair;
  WeightAverage whole(pair.context, pair.both), first(pair.context, pair.both);
  CHECK_THAT(error_of([&] { whole.swap(); }), Contains("before an update()"));
  train(pair, whole, 0, 8);
  train(pair, first, 0, 3);
  WeightAverage rest(pair.context, pair.both);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(rest.state()[i].name == (std::vector<std::string>{"w", "b", "updates"}[i]));
    copy(first.state()[i].value.buffer(), rest.state()[i].value.buffer());
  }
  train(pair, rest, 3, 8);
  CHECK(pair.context.to_host<double>(rest.state()[0].value) ==
        pair.context.to_host<double>(whole.state()[0].value));
  CHECK(pair.context.to_host<std::int64_t>(rest.state()[2].value) == std::vector<std::int64_t>{8});
  CHECK(error_of([&] { WeightAverage(pair.context, pair.both, {.decay = 1.5}); }) ==
        "[nn] the decay of a WeightAverage is 1.500000, expected 0 to 1");
}

TEST_CASE("an optimizer with restored state continues exactly", "[optim]") {
  const Case& each = GENERATE(from_range(kCases));
  CAPTURE(each.name);
  Pair whole, before, after;
  const auto unbroken = each.make(whole), saved = each.make(before), loaded = each.make(after);
  run(each, whole, *unbroken, 0, 17);
  run(each, before, *saved, 0, 17);
  for (Optimizer* optimizer : {unbroken.get(), saved.get()}) {
    optimizer->set_learning_rate(optimizer->learning_rate() / 2);
  }
  run(each, whole, *unbroken, 17, 30);
  const auto from = saved->state(), to = loaded->state();
  REQUIRE(from.size() == to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    CHECK(from[i].name == to[i].name);
    ddp::copy(from[i].value.buffer(), to[i].value.buffer());
  }
  for (std::size_t i = 0; i < 2; ++i) {
    ddp::copy(before.both[i]->value().buffer(), after.both[i]->value().buffer());
  }
  run(each, after, *loaded, 17, 30);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(after.context.to_host<double>(after.both[i]->value()) ==
          whole.context.to_host<double>(whole.both[i]->value()));
  }
}

TEST_CASE("optimizers skip parameters without a gradient and clear the others' gradients",
          "[optim]") {
  Pair pair;
  Adam adam(pair.context, pair.both, {});
  const auto old_b = pair.context.to_host<double>(pair.b.value());
  pair.write_gradients(3);  // of w alone
  adam.step();
  const auto new_w = pair.context.to_host<double>(pair.w.value());
  adam.step();  // there are no gradients any more
  CHECK(pair.context.to_host<double>(pair.w.value()) == new_w);
  CHECK(pair.context.to_host<double>(pair.b.value()) == old_b);
  std::string names;
  for (const NamedTensor& tensor : adam.state()) names += tensor.name + " ";
  CHECK(names == "w.exp_avg w.exp_avg_sq w.step b.exp_avg b.exp_avg_sq b.step learning_rate ");
  CHECK(pair.context.to_host<std::int64_t>(adam.state()[2].value).front() == 1);
  CHECK(pair.context.to_host<std::int64_t>(adam.state()[5].value).front() == 0);
}

TEST_CASE("set_learning_rate changes the rate of all groups", "[optim]") {
  Pair pair;
  const auto adam = adamw_with_groups(pair);
  CHECK(adam->learning_rate() == 0.01);
  adam->set_learning_rate(0);
  const auto old_w = pair.context.to_host<double>(pair.w.value());
  const auto old_b = pair.context.to_host<double>(pair.b.value());
  pair.write_gradients(0);
  adam->step();
  CHECK(pair.context.to_host<double>(pair.w.value()) == old_w);
  CHECK(pair.context.to_host<double>(pair.b.value()) == old_b);
}

TEST_CASE("a group may have a learning rate of its own", "[optim]") {
  Pair pair;
  const std::vector<ParameterGroup<SgdStep>> groups = {{{&pair.w}, {.learning_rate = 1}},
                                                       {{&pair.b}, {.learning_rate = 0.1}}};
  const auto old_w = pair.context.to_host<double>(pair.w.value());
  const auto old_b = pair.context.to_host<double>(pair.b.value());
  Sgd sgd(pair.context, groups);
  sgd.set_group_learning_rate(0, 0);
  pair.write_gradients(0);
  sgd.step();
  CHECK(pair.context.to_host<double>(pair.w.value()) == old_w);
  CHECK(pair.context.to_host<double>(pair.b.value()) != old_b);
  CHECK(sgd.learning_rate() == 0);
  CHECK(sgd.group_count() == 2);
  CHECK(sgd.group_learning_rate(1) == 0.1);
  CHECK_THROWS_AS(sgd.group_learning_rate(2), std::out_of_range);
  CHECK_THROWS_AS(sgd.set_group_learning_rate(2, 0), std::out_of_range);

  Adam adam(pair.context, {{{&pair.w}, {}}, {{&pair.b}, {}}});
  adam.set_group_learning_rate(1, 0);
  const auto new_b = pair.context.to_host<double>(pair.b.value());
  pair.write_gradients(0);
  adam.step();
  CHECK(pair.context.to_host<double>(pair.w.value()) != old_w);
  CHECK(pair.context.to_host<double>(pair.b.value()) == new_b);
}

TEST_CASE("biases and normalisations can be left out of weight decay", "[optim]") {
  Pair pair;
  const DecaySplit split = split_by_decay(pair.both);
  CHECK(split.decayed == std::vector{&pair.w});
  CHECK(split.not_decayed == std::vector{&pair.b});
}

TEST_CASE("optimizers refuse parameters and options that contradict each other", "[optim]") {
  Pair pair, other(DType::kFloat32);
  Parameter* const mixed[] = {&pair.w, &other.b};
  CHECK(error_of([&] { Adam(pair.context, mixed, {}); }) ==
        "[nn] an optimizer's parameters differ: b is float32[7] on cpu, w is float64[15] on cpu");
  Parameter* const twice[] = {&pair.w, &pair.b, &pair.w};
  CHECK(error_of([&] { Sgd(pair.context, twice, {}); }) ==
        "[nn] an optimizer has 'w' twice: a parameter belongs to one group");
  CHECK(error_of([&] {
          Adam(pair.context, {{{&pair.w}, {}}, {{&pair.w}, {}}});
        }) == "[nn] an optimizer has 'w' twice: a parameter belongs to one group");
  Pair namesake;
  CHECK(
      error_of([&] {
        Sgd(pair.context, std::vector{&pair.w, &namesake.w}, {});
      }) ==
      "[nn] an optimizer has two parameters named 'w', which a checkpoint cannot tell apart: give "
      "their modules different scopes");
  CHECK(error_of([&] { Sgd(pair.context, std::vector<Parameter*>{nullptr}, {}); }) ==
        "[nn] an optimizer's parameter is a null pointer");
  CHECK(error_of([&] { Sgd(pair.context, std::vector<Parameter*>(), {}); }) ==
        "[nn] an optimizer has no parameters");
  ddp::Buffer elsewhere = pair.w.value().buffer();
  elsewhere.device = ddp::cuda_device(1);
  Parameter on_gpu("w", Tensor::view(elsewhere, pair.w.value().shape()));
  CHECK(error_of([&] { Sgd(pair.context, std::vector{&on_gpu}, {}); }) ==
        "[nn] an optimizer's context is on cpu, but 'w' is on cuda:1");
  Parameter half("w", Tensor::zeros({2}, DType::kFloat16));
  CHECK_THAT(
      error_of([&] { Sgd(pair.context, std::vector{&half}, {}); }),
      Catch::StartsWith("[nn] an optimizer steps float32 and float64, but 'w' is float16[2]"));
  const std::string negative =
      "[nn] an optimizer's learning rate is -1.000000, but it must be 0 or above";
  CHECK(error_of([&] { Sgd(pair.context, pair.both, {.learning_rate = -1}); }) == negative);
  CHECK(error_of([&] { Sgd(pair.context, pair.both, {}).set_learning_rate(-1); }) == negative);
  CHECK(error_of([&] { Sgd(pair.context, mixed, {}); }) ==
        "[nn] an optimizer's parameters differ: b is float32[7] on cpu, w is float64[15] on cpu");
  const auto sgd = [&](const SgdStep& step) {
    return error_of([&] { Sgd(pair.context, pair.both, step); });
  };
  CHECK(sgd({.nesterov = true}) == "[kernels] sgd_step: nesterov needs a momentum other than 0");
  CHECK(sgd({.momentum = -0.5}) == "[kernels] sgd_step: momentum is -0.5, expected 0 or above");
  CHECK(sgd({.weight_decay = NAN}) ==
        "[kernels] sgd_step: weight_decay is nan, expected 0 or above");
  const auto adam = [&](const AdamStep& step) {
    return error_of([&] { Adam(pair.context, pair.both, step); });
  };
  CHECK(adam({.beta2 = 1}) == "[kernels] adam_step: a beta is 1, expected 0 <= beta < 1");
  CHECK(adam({.eps = -1}) == "[kernels] adam_step: eps is -1, expected 0 or above");
  CHECK(adam({.weight_decay = -1}) ==
        "[kernels] adam_step: weight_decay is -1, expected 0 or above");
}

TEST_CASE("clip_grad_norm does not change small gradients and reports bad ones", "[optim]") {
  Pair pair;
  const auto value_of = [&](const Tensor& tensor) {
    return pair.context.to_host<double>(tensor).front();
  };
  const ClippedNorm none = clip_grad_norm(pair.context, pair.both, 1);
  CHECK(value_of(none.norm) == 0);
  CHECK(value_of(none.scale) == 1);
  pair.write_gradients(0);
  const double scale = 0.25;
  const ClippedNorm small = clip_grad_norm(pair.context, pair.both, 100, &scale);
  CHECK(value_of(small.scale) == 0.25);
  CHECK(value_of(small.norm) == Approx(reference().at("adamw_clipped norm")[1] / 4));
  const double bad =
      GENERATE(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity());
  pair.b.grad().buffer().as<double>()[3] = bad;
  const ClippedNorm clipped = clip_grad_norm(pair.context, pair.both, 1);
  CHECK(!std::isfinite(value_of(clipped.norm)));
  CHECK(!(value_of(clipped.scale) > 0));
  CHECK(error_of([&] { static_cast<void>(clip_grad_norm(pair.context, pair.both, 0)); }) ==
        "[kernels] clip_grad_norm: max_norm is 0.000000, expected a positive number");
}

TEST_CASE("a null pointer in place of a parameter is refused by name", "[optim]") {
  Context context;
  Parameter* const none[] = {nullptr};
  CHECK(error_of([&] { WeightAverage(context, none); }) ==
        "[nn] a WeightAverage's parameter is a null pointer");
  CHECK(error_of([&] { static_cast<void>(clip_grad_norm(context, none, 1)); }) ==
        "[nn] clip_grad_norm's parameter is a null pointer");
  CHECK(error_of([&] { static_cast<void>(split_by_decay(none)); }) ==
        "[nn] split_by_decay's parameter is a null pointer");
}
