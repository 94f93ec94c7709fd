// SPDX-License-Identifier: MIT
//
// Training in mixed precision on two ranks, and the scale of its losses.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/nn/models/lenet5.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/named_buffers.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/adam.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "support/files.h"
#include "support/groups.h"
#include "support/reference.h"

using namespace ddp;
using nn::Tensor;
using nn::Variable;
using test::error_of;
using test::expect;

namespace {

constexpr std::uint64_t kSeed = 11;
constexpr std::size_t kRows = 8;

// The training of one rank, always on the same images of its own.
struct Trainee {
  Trainee(ProcessGroup& group, std::optional<DType> amp)
      : module({context, DType::kFloat32, kSeed}),
        model(module, context, group.shared_from_this(),
              {.nominal_samples = kRows, .non_finite = NonFinite::kSkip}),
        optimizer(context, module.parameters(), {.learning_rate = 1e-3}),
        tape(context, nn::Recording::kOn, amp),
        images(test::reference_images(context, kSeed, kRows * first_of(group), kRows,
                                      DType::kFloat32)),
        labels(test::reference_labels(context, kSeed, kRows * first_of(group), kRows)) {}

  static std::size_t first_of(const ProcessGroup& group) {
    return static_cast<std::size_t>(group.rank());
  }

  void backward(const Tensor& input) {
    const Variable loss = nn::softmax_cross_entropy(tape, model.forward(tape, input), labels);
    const nn::StepMetric metric{loss.value(), kRows};
    model.backward(tape, loss, kRows, {&metric, 1});
  }
  void step() {
    backward(images);
    model.step(optimizer);
  }
  // Makes a step of three passes, of which one may overflow, and clips. Returns the norm of the
  // gradients before that.
  double clipped_step(std::optional<int> overflowing_pass) {
    model.accumulate(3);
    for (int pass = 0; pass < 3; ++pass) {
      backward(pass == overflowing_pass ? overflowing() : images);
    }
    const double norm = context.to_host<double>(model.clip_grad_norm(0.1)).front();
    model.step(optimizer);
    return norm;
  }
  // Images that are infinite in float16.
  Tensor overflowing() {
    return context.from_host<float>(std::vector<float>(kRows * 784, 1e6F), {kRows, 784});
  }
  // The loss of the last step over all ranks.
  double loss() { return model.engine().summary().metrics[0].mean(); }

  std::vector<float> values() {
    std::vector<float> all;
    for (const nn::Parameter* parameter : module.parameters()) {
      const auto own = context.to_host<float>(parameter->value());
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  nn::Context context;
  nn::LeNet5 module;
  nn::DistributedModule model;
  nn::Adam optimizer;
  nn::Tape tape;
  Tensor images;
  Tensor labels;
};

// Rank 0's loss of each step of two ranks.
std::vector<double> losses(std::optional<DType> amp, std::size_t steps) {
  std::vector<double> losses;
  test::run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    Trainee trainee(group, amp);
    nn::GradScaler scaler;
    if (amp == DType::kFloat16) trainee.model.scale_losses(scaler);
    for (std::size_t step = 0; step < steps; ++step) {
      trainee.step();
      if (group.rank() == 0) losses.push_back(trainee.loss());
    }
  });
  return losses;
}

}  // namespace

TEST_CASE("two ranks that train in 16 bits reach nearly the loss of float32", "[amp]") {
  constexpr std::size_t kSteps = 30;
  const auto full = losses(std::nullopt, kSteps);
  for (const DType narrow : {DType::kBFloat16, DType::kFloat16}) {
    const auto mixed = losses(narrow, kSteps);
    CHECK(mixed != full);
    CHECK(mixed.front() == Approx(full.front()).epsilon(1e-3));
    CHECK(mixed.back() < 0.7 * mixed.front());
    CHECK(mixed.back() == Approx(full.back()).epsilon(0.05));
  }
}

TEST_CASE("an overflow on one rank skips the step on all and halves the scale", "[amp]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, DType::kFloat16);
    nn::GradScaler scaler({.initial_scale = 1024});
    trainee.model.scale_losses(scaler);
    trainee.step();
    const auto before = trainee.values();
    trainee.backward(group.rank() == 1 ? trainee.overflowing() : trainee.images);
    trainee.model.step(trainee.optimizer);
    expect(trainee.values() == before, "parameters are as they were");
    expect(scaler.scale() == 512, "the scale is halved");
    expect(trainee.optimizer.state()[2].value.buffer().as<std::int64_t>()[0] == 1,
           "the skipped step does not count");
    expect(trainee.model.engine().statistics().skipped_steps == 1, "one step was skipped");
    trainee.step();
    const auto after = trainee.values();
    expect(after != before, "the next step is taken");
    for (const float value : after) expect(std::isfinite(value), "parameters are finite");
    auto first = after;
    group.broadcast(buffer_of(first), 0).wait();
    expect(first == after, "equal on all ranks, to the last bit");
  });
}

TEST_CASE("a step that overflows in one pass, on one rank, changes only the scale", "[amp]") {
  const int bad_pass = GENERATE(0, 2);
  test::run_on_all_backends(2, [&](ProcessGroup& group) {
    Trainee trainee(group, DType::kFloat16), spared(group, DType::kFloat16);
    const nn::GradScalerOptions growing{.initial_scale = 1024, .growth_interval = 2};
    nn::GradScaler scaler(growing), spared_scaler(growing);
    trainee.model.scale_losses(scaler);
    spared.model.scale_losses(spared_scaler);
    expect(trainee.clipped_step({}) == spared.clipped_step({}), "the same first step");

    const auto before = trainee.values();
    const auto overflowing = group.rank() == 1 ? std::optional(bad_pass) : std::nullopt;
    expect(!std::isfinite(trainee.clipped_step(overflowing)), "a norm that is not finite");
    expect(trainee.values() == before, "parameters are as they were");
    expect(scaler.scale() == 512, "the scale is halved once");
    expect(trainee.model.engine().statistics().skipped_steps == 1, "one step was skipped");

    spared_scaler.update(true);
    for (const double scale : {512, 1024}) {
      const double norm = trainee.clipped_step({});
      expect(norm > 0.1, "gradients are clipped");
      expect(norm == spared.clipped_step({}), "the same norm, to the last bit");
      expect(trainee.values() == spared.values(), "the same parameters, to the last bit");
      expect(trainee.values() != before, "the step is taken");
      expect(scaler.scale() == scale && spared_scaler.scale() == scale, "the scale grows again");
    }
    auto first = trainee.values();
    group.broadcast(buffer_of(first), 0).wait();
    expect(first == trainee.values(), "equal on all ranks, to the last bit");
  });
}

TEST_CASE("a scaled loss gives the same steps, and needs a policy that skips bad ones", "[amp]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee plain(group, std::nullopt), scaled(group, std::nullopt);
    nn::GradScaler scaler({.initial_scale = 4096, .growth_interval = 2});
    scaled.model.scale_losses(scaler);
    for (int step = 0; step < 5; ++step) {
      for (Trainee* each : {&plain, &scaled}) {
        each->backward(each->images);
        const Tensor norm = each->model.clip_grad_norm(0.1);
        expect(norm.buffer().as<double>()[0] > 0.1, "the norm is clipped");
        each->model.step(each->optimizer);
      }
    }
    // A scale that is a power of two changes no bit, except in the norm, whose epsilon is added to
    // the unscaled norm.
    expect(plain.values() == scaled.values(), "the parameters are the same");
    expect(scaler.scale() == 4 * 4096, "the scale grew twice");
    nn::Context context;
    nn::LeNet5 module({context, DType::kFloat32, kSeed});
    nn::DistributedModule model(module, context, group.shared_from_this(), {});
    expect(error_of([&] { model.scale_losses(scaler); }) ==
               "[ddp] scale_losses needs DdpOptions::non_finite = NonFinite::kSkip",
           "a module that skips nothing is refused");
  });
}

TEST_CASE("a forward pass casts the values that a broadcast or a checkpoint has brought", "[amp]") {
  const DType narrow = GENERATE(DType::kBFloat16, DType::kFloat16);
  const test::TemporaryDirectory directory;
  test::run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    nn::Context context;
    const auto rank = static_cast<std::uint64_t>(group.rank());
    nn::Linear layer({context, DType::kFloat32, rank}, 4, 3);
    const auto tensors = nn::named_buffers(layer.state_dict());
    const Tensor x = context.from_host<float>(std::vector<float>(4, 1.0F), {1, 4});
    nn::Tape tape(context, nn::Recording::kOn, narrow);
    const auto output_on = [&](nn::Tape& any) {
      const Tensor output = layer.forward(any, x).value();
      const Tensor wide = context.empty(output.shape(), DType::kFloat32);
      cast(output.buffer(), wide.buffer());
      return context.to_host<float>(wide);
    };
    const auto sees_new_values = [&] {
      nn::Tape fresh(context, nn::Recording::kOff, narrow);
      return output_on(tape) == output_on(fresh);
    };
    const std::filesystem::path file = directory / std::to_string(rank);
    const std::vector<float> first = output_on(tape);
    save_checkpoint(file, tensors, {});
    broadcast_tensors(group, tensors, 0);
    expect(sees_new_values(), "those of rank 0");
    restore_tensors(file, load_checkpoint(file), tensors);
    expect(sees_new_values() && output_on(tape) == first, "those of the checkpoint");
    const nn::DistributedModule model(layer, context, group.shared_from_this());
    expect(sees_new_values(), "those with which a training begins");
  });
}

TEST_CASE("the clipped norm is that of the mean gradient, on all ranks", "[amp]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  std::vector<double> norms;
  for (const int ranks : {1, 2, 4}) {
    test::run_groups(backend, ranks, [&](ProcessGroup& group) {
      nn::Context context;
      nn::LeNet5 module({context, DType::kFloat64, kSeed});
      nn::DistributedModule model(module, context, group.shared_from_this(),
                                  {.nominal_samples = 8.0 / ranks});
      nn::Sgd sgd(context, module.parameters(), {.learning_rate = 0.1});
      nn::Tape tape(context);
      const std::size_t rows = 8 / static_cast<std::size_t>(ranks);
      const std::size_t first = rows * static_cast<std::size_t>(group.rank());
      const Tensor x = test::reference_images(context, kSeed, first, rows, DType::kFloat64);
      const Tensor labels = test::reference_labels(context, kSeed, first, rows);
      Tensor norm;
      for (int step = 0; step < 3; ++step) {
        const Variable loss = nn::softmax_cross_entropy(tape, model.forward(tape, x), labels);
        model.backward(tape, loss, static_cast<double>(rows));
        norm = model.clip_grad_norm(0.1);
        model.step(sgd);
      }
      std::vector<double> own = context.to_host<double>(norm), rank0 = own;
      group.broadcast(buffer_of(rank0), 0).wait();
      expect(own == rank0, "equal on all ranks, to the last bit");
      if (group.rank() == 0) norms.push_back(own.front());
    });
  }
  CHECK(norms[0] > 0.1);
  CHECK(norms[1] == Approx(norms[0]).epsilon(1e-12));
  CHECK(norms[2] == Approx(norms[0]).epsilon(1e-12));
}

TEST_CASE("the scale grows and shrinks like that of PyTorch's GradScaler", "[amp]") {
  nn::GradScaler scaler({.initial_scale = 1024, .growth_interval = 4});
  // {overflow, scale afterwards}, as given by _amp_update_scale_, which GradScaler calls (torch
  // 2.15).
  const std::vector<std::pair<bool, double>> steps = {
      {false, 1024}, {false, 1024}, {true, 512},   {false, 512},  {false, 512},
      {false, 512},  {false, 1024}, {false, 1024}, {false, 1024}, {false, 1024},
      {false, 2048}, {true, 1024},  {true, 512},   {false, 512}};
  for (const auto& [overflows, expected] : steps) {
    scaler.update(overflows);
    CHECK(scaler.scale() == expected);
  }
  nn::GradScaler resumed({.initial_scale = 7, .growth_interval = 4});
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(resumed.state()[i].name == scaler.state()[i].name);
    copy(scaler.state()[i].value.buffer(), resumed.state()[i].value.buffer());
  }
  for (int step = 0; step < 3; ++step) resumed.update(false);
  CHECK(resumed.scale() == 1024);
  nn::GradScaler shorter({.growth_interval = 2});
  shorter.state()[1].value.buffer().as<std::int64_t>()[0] = 5;  // of a longer interval
  shorter.update(false);
  CHECK(shorter.scale() == 131072);

  nn::GradScaler largest({.initial_scale = 0x1p127, .growth_interval = 1});
  largest.update(false);  // float32 ends at 2^128
  CHECK(largest.scale() == 0x1p127);
  nn::GradScaler by_default;
  for (int step = 0; step < 2000; ++step) {
    CHECK(by_default.scale() == 65536);
    by_default.update(false);
  }
  CHECK(by_default.scale() == 131072);

  constexpr double kSmallest = 0x1p-14;
  nn::GradScaler smallest;
  for (int step = 0; step < 200; ++step) smallest.update(true);
  CHECK(smallest.scale() == kSmallest);
  smallest.state()[0].value.buffer().as<double>()[0] = 1e-40;  // of an older checkpoint
  CHECK(smallest.scale() == kSmallest);
  smallest.update(true);
  CHECK(smallest.scale() == kSmallest);
  CHECK_THAT(error_of([] { nn::GradScaler({.initial_scale = kSmallest / 2}); }),
             Catch::Contains("initial scale 0.000031"));
  CHECK(error_of([] { nn::GradScaler({.backoff_factor = 1}); }) ==
        "[nn] GradScaler: one of these options is not valid: initial scale 65536.000000, growth by "
        "2.000000 every 2000 steps, backoff by 1.000000");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK_THAT(error_of([] { nn::GradScaler({.initial_scale = kInfinity}); }),
             Catch::Contains("initial scale inf"));
  CHECK_THAT(error_of([] { nn::GradScaler({.initial_scale = 0x1p128}); }),
             Catch::Contains("initial scale 340282366920938463463374607431768211456.000000"));
  CHECK_THAT(error_of([] { nn::GradScaler({.growth_factor = kInfinity}); }),
             Catch::Contains("growth by inf"));
}
