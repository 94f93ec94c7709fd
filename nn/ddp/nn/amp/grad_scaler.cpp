// SPDX-License-Identifier: MIT
#include "ddp/nn/amp/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace ddp::nn {
namespace {

constexpr double kLargestScale = std::numeric_limits<float>::max();
// With it float16 holds gradients up to 1e9, so what overflows nevertheless is no matter of the
// scale. Without a limit, many such steps would leave a scale at which all gradients vanish, and at
// last one whose reciprocal is infinite. (It is about fairseq's --min-loss-scale, 1e-4.)
constexpr double kSmallestScale = 0x1p-14;

void check(const GradScalerOptions& options) {
  if (options.initial_scale >= kSmallestScale && options.initial_scale <= kLargestScale &&
      options.growth_factor > 1 && std::isfinite(options.growth_factor) &&
      options.backoff_factor > 0 && options.backoff_factor < 1 && options.growth_interval > 0) {
    return;
  }
  throw std::invalid_argument("[nn] GradScaler: one of these options is not valid: initial scale " +
                              std::to_string(options.initial_scale) + ", growth by " +
                              std::to_string(options.growth_factor) + " every " +
                              std::to_string(options.growth_interval) + " steps, backoff by " +
                              std::to_string(options.backoff_factor));
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options),
      scale_(Tensor::zeros({}, DType::kFloat64)),
      growth_tracker_(Tensor::zeros({}, DType::kInt64)) {
  check(options);
  scale_.buffer().as<double>()[0] = options.initial_scale;
}

// A checkpoint may hold less than the smallest scale.
double GradScaler::scale() const {
  return std::max(kSmallestScale, scale_.buffer().as<double>()[0]);
}

bool GradScaler::is_smallest() const { return scale() == kSmallestScale; }

void GradScaler::update(bool has_overflowed) {
  double& scale = scale_.buffer().as<double>()[0];
  std::int64_t& good_steps = growth_tracker_.buffer().as<std::int64_t>()[0];
  if (has_overflowed) {
    scale = std::max(kSmallestScale, scale * options_.backoff_factor);
    good_steps = 0;
  } else if (++good_steps >= options_.growth_interval) {
    const double grown = this->scale() * options_.growth_factor;
    if (grown <= kLargestScale) scale = grown;
    good_steps = 0;
  }
}

std::vector<NamedTensor> GradScaler::state() const {
  return {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
}

}  // namespace ddp::nn
