// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/reduce_lr_on_plateau.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace ddp::nn {
namespace {

bool is_valid(double value) { return value >= 0 && std::isfinite(value); }

void check(const ReduceLrOnPlateauOptions& options) {
  if (is_valid(options.base) && options.factor >= 0 && options.factor < 1 &&
      options.patience >= 0 && is_valid(options.threshold) && options.cooldown >= 0 &&
      is_valid(options.minimum) && is_valid(options.eps)) {
    return;
  }
  throw std::invalid_argument(
      "[nn] ReduceLrOnPlateau: one of these options is not valid: rate " +
      std::to_string(options.base) + ", factor " + std::to_string(options.factor) + ", patience " +
      std::to_string(options.patience) + ", threshold " + std::to_string(options.threshold) +
      ", cooldown " + std::to_string(options.cooldown) + ", minimum " +
      std::to_string(options.minimum) + ", eps " + std::to_string(options.eps));
}

double& number(const Tensor& tensor) { return tensor.buffer().as<double>()[0]; }
std::int64_t& count(const Tensor& tensor) { return tensor.buffer().as<std::int64_t>()[0]; }

}  // namespace

ReduceLrOnPlateau::ReduceLrOnPlateau(const ReduceLrOnPlateauOptions& options)
    : options_(options),
      rate_(Tensor::zeros({}, DType::kFloat64)),
      best_(Tensor::zeros({}, DType::kFloat64)),
      bad_epochs_(Tensor::zeros({}, DType::kInt64)),
      cooldown_(Tensor::zeros({}, DType::kInt64)) {
  check(options);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  number(rate_) = options.base;
  number(best_) = options.mode == PlateauMode::kMin ? kInfinity : -kInfinity;
}

bool ReduceLrOnPlateau::step(double value) {
  std::int64_t& bad_epochs = count(bad_epochs_);
  std::int64_t& cooldown = count(cooldown_);
  ++bad_epochs;
  if (is_better(value)) {
    number(best_) = value;
    bad_epochs = 0;
  }
  if (cooldown > 0) {
    --cooldown;
    bad_epochs = 0;
  }
  if (bad_epochs <= options_.patience) return false;
  bad_epochs = 0;
  cooldown = options_.cooldown;
  return reduce();
}

bool ReduceLrOnPlateau::is_better(double value) const {
  const double sign = options_.mode == PlateauMode::kMin ? -1 : 1;
  const double best = number(best_);
  const double margin = sign * options_.threshold;
  const bool is_relative = options_.threshold_mode == PlateauThreshold::kRelative;
  const double bound = is_relative ? best * (1 + margin) : best + margin;
  return sign * value > sign * bound;
}

bool ReduceLrOnPlateau::reduce() {
  double& rate = number(rate_);
  const double reduced = std::max(rate * options_.factor, options_.minimum);
  if (!(rate - reduced > options_.eps)) return false;
  rate = reduced;
  return true;
}

std::vector<NamedTensor> ReduceLrOnPlateau::state() const {
  return {{"learning_rate", rate_},
          {"best", best_},
          {"num_bad_epochs", bad_epochs_},
          {"cooldown_counter", cooldown_}};
}

}  // namespace ddp::nn
