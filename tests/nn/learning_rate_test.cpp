// SPDX-License-Identifier: MIT
//
// Compares schedules of learning rates with real PyTorch;
// tests/reference/make_optimizer_reference.py describes what it ran.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/optim/lr_schedule.h"
#include "ddp/nn/optim/reduce_lr_on_plateau.h"
#include "support/optimizer_reference.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using ddp::DType;
using ddp::test::error_of;
using ddp::test::optimizers::reference;

struct Plateau {
  std::string name;
  ReduceLrOnPlateauOptions options;
};

const std::vector<Plateau> kPlateaus = {{"usual", {.base = 0.4, .patience = 2}},
                                        {"max",
                                         {.base = 0.4,
                                          .mode = PlateauMode::kMax,
                                          .factor = 0.5,
                                          .patience = 0,
                                          .threshold = 0.1,
                                          .cooldown = 2,
                                          .minimum = 0.03}},
                                        {"absolute",
                                         {.base = 0.4,
                                          .patience = 1,
                                          .threshold = 0.05,
                                          .threshold_mode = PlateauThreshold::kAbsolute,
                                          .cooldown = 1,
                                          .eps = 0.01}},
                                        {"max_absolute",
                                         {.base = 0.4,
                                          .mode = PlateauMode::kMax,
                                          .patience = 1,
                                          .threshold = 0.2,
                                          .threshold_mode = PlateauThreshold::kAbsolute}}};

constexpr std::uint64_t kPlateauValues = 40;

// The same value as in run_plateau() of the script.
double plateau_value(const Plateau& plateau, std::uint64_t i) {
  const double noise =
      2 * ddp::random_unit(ddp::test::optimizers::kSeed, ddp::stream_of("plateau"), i) - 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double value = i == 20 ? nan : std::max(1 - static_cast<double>(i) / 10, 0.2) + 0.1 * noise;
  return plateau.options.mode == PlateauMode::kMax ? 1 - value : value;
}

// Rate, best, bad epochs, cooldown.
std::vector<double> numbers_of(const ReduceLrOnPlateau& schedule) {
  std::vector<double> numbers;
  for (const NamedTensor& tensor : schedule.state()) {
    const ddp::Buffer& buffer = tensor.value.buffer();
    numbers.push_back(buffer.dtype == DType::kInt64
                          ? static_cast<double>(buffer.as<std::int64_t>()[0])
                          : buffer.as<double>()[0]);
  }
  return numbers;
}

}  // namespace

TEST_CASE("a linear warm-up equals PyTorch's LinearLR", "[optim][torch]") {
  const LinearWarmup warmup{.steps = 6, .start_factor = 0.25};
  for (std::int64_t step = 0; step < 9; ++step) {
    const double rate = reference().at("linear")[static_cast<std::size_t>(2 * step + 1)];
    CHECK(0.4 * warmup_factor(warmup, step) == Approx(rate).epsilon(1e-14));
  }
  CHECK(warmup_factor({}, 0) == 1);
  CHECK(error_of([&] { static_cast<void>(warmup_factor(warmup, -1)); }) ==
        "[nn] warmup_factor: step -1 of 6, starting at a factor of 0.250000");
}

TEST_CASE("ReduceLrOnPlateau equals PyTorch's ReduceLROnPlateau, including the state",
          "[optim][torch]") {
  const Plateau& plateau = GENERATE(from_range(kPlateaus));
  CAPTURE(plateau.name);
  const std::vector<double>& lines = reference().at("plateau_" + plateau.name);
  ReduceLrOnPlateau schedule(plateau.options);
  int reductions = 0;
  for (std::uint64_t i = 0; i < kPlateauValues; ++i) {
    CAPTURE(i);
    const double before = schedule.learning_rate();
    const bool is_reduced = schedule.step(plateau_value(plateau, i));
    CHECK(is_reduced == (schedule.learning_rate() < before));
    reductions += is_reduced ? 1 : 0;
    const std::vector<double> numbers = numbers_of(schedule);
    for (std::size_t k = 0; k < 4; ++k) CHECK(numbers[k] == Approx(lines[4 * i + k]).margin(0));
    CHECK(schedule.learning_rate() == numbers[0]);
  }
  CHECK(reductions >= 2);
}

TEST_CASE("a ReduceLrOnPlateau with restored state continues exactly", "[optim]") {
  const Plateau& plateau = GENERATE(from_range(kPlateaus));
  ReduceLrOnPlateau whole(plateau.options), before(plateau.options), after(plateau.options);
  for (std::uint64_t i = 0; i < kPlateauValues; ++i) {
    (void)whole.step(plateau_value(plateau, i));
    if (i < 17) (void)before.step(plateau_value(plateau, i));
  }
  const auto from = before.state(), to = after.state();
  for (std::size_t k = 0; k < 4; ++k) ddp::copy(from[k].value.buffer(), to[k].value.buffer());
  for (std::uint64_t i = 17; i < kPlateauValues; ++i) (void)after.step(plateau_value(plateau, i));
  CHECK(numbers_of(after) == numbers_of(whole));
}

TEST_CASE("ReduceLrOnPlateau refuses invalid options", "[optim]") {
  CHECK(error_of([] { ReduceLrOnPlateau({.factor = 1}); }) ==
        "[nn] ReduceLrOnPlateau: one of these options is not valid: rate 0.100000, factor "
        "1.000000, patience 10, threshold 0.000100, cooldown 0, minimum 0.000000, eps "
        "0.000000");
  CHECK(error_of([] { ReduceLrOnPlateau({.patience = -1}); }) != "");
  CHECK(error_of([] { ReduceLrOnPlateau({.base = std::nan("")}); }) != "");
}

TEST_CASE("the linear scaling rule multiplies the rate as the batch grows", "[optim]") {
  CHECK(scaled_learning_rate(0.1, 8192) == Approx(3.2));  // Goyal et al.: 256 GPUs of 32
  CHECK(scaled_learning_rate(0.1, 96, 64) == Approx(0.15));
  CHECK(error_of([] { static_cast<void>(scaled_learning_rate(0.1, 0)); }) ==
        "[nn] scaled_learning_rate: the global batch is 0 and the reference batch 256, but both "
        "must be positive");
}
