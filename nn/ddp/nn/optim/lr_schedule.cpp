// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/lr_schedule.h"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

namespace ddp::nn {
namespace {

bool is_rate(double value) { return value >= 0 && std::isfinite(value); }

void check_rates(const LrSchedule& schedule) {
  if (is_rate(schedule.base) && is_rate(schedule.step_factor) && is_rate(schedule.minimum)) {
    return;
  }
  throw std::invalid_argument("[nn] learning_rate: one of these options is not valid: base " +
                              std::to_string(schedule.base) + ", step factor " +
                              std::to_string(schedule.step_factor) + ", minimum " +
                              std::to_string(schedule.minimum));
}

void check(const LrSchedule& schedule, std::int64_t epoch) {
  check_rates(schedule);
  if (schedule.epochs == 0 && schedule.kind == LrScheduleKind::kCosine) {
    throw std::invalid_argument(
        "[nn] learning_rate: a cosine needs `epochs`, at whose end it reaches the minimum");
  }
  const bool is_in_time = schedule.epochs == 0 || schedule.warmup_epochs <= schedule.epochs;
  if (epoch >= 0 && schedule.epochs >= 0 && schedule.warmup_epochs >= 0 && is_in_time &&
      schedule.step_epochs >= 1) {
    return;
  }
  throw std::invalid_argument("[nn] learning_rate: epoch " + std::to_string(epoch) + " of " +
                              std::to_string(schedule.epochs) + " with " +
                              std::to_string(schedule.warmup_epochs) +
                              " warm-up epochs and a step of " +
                              std::to_string(schedule.step_epochs) + " epochs is not possible");
}

double cosine(const LrSchedule& schedule, std::int64_t t) {
  const std::int64_t total = schedule.epochs - schedule.warmup_epochs;
  if (t >= total) return schedule.minimum;
  const double angle = std::numbers::pi * static_cast<double>(t) / static_cast<double>(total);
  return schedule.minimum + (schedule.base - schedule.minimum) * (1 + std::cos(angle)) / 2;
}

}  // namespace

std::string_view to_string(LrScheduleKind kind) {
  switch (kind) {
    case LrScheduleKind::kStep:
      return "step";
    case LrScheduleKind::kCosine:
      return "cosine";
    case LrScheduleKind::kConstant:
      break;
  }
  return "constant";
}

double learning_rate(const LrSchedule& schedule, std::int64_t epoch) {
  check(schedule, epoch);
  if (epoch < schedule.warmup_epochs) {
    return schedule.base * static_cast<double>(epoch + 1) /
           static_cast<double>(schedule.warmup_epochs);
  }
  const std::int64_t t = epoch - schedule.warmup_epochs;
  switch (schedule.kind) {
    case LrScheduleKind::kStep:
      return schedule.base *
             std::pow(schedule.step_factor, static_cast<double>(t / schedule.step_epochs));
    case LrScheduleKind::kCosine:
      return cosine(schedule, t);
    case LrScheduleKind::kConstant:
      break;
  }
  return schedule.base;
}

double warmup_factor(const LinearWarmup& warmup, std::int64_t step) {
  const double start = warmup.start_factor;
  if (step < 0 || warmup.steps < 0 || !(start >= 0 && start <= 1)) {
    throw std::invalid_argument("[nn] warmup_factor: step " + std::to_string(step) + " of " +
                                std::to_string(warmup.steps) + ", starting at a factor of " +
                                std::to_string(start));
  }
  if (step >= warmup.steps) return 1;
  return start + (1 - start) * static_cast<double>(step) / static_cast<double>(warmup.steps);
}

double scaled_learning_rate(double reference_rate, std::int64_t global_batch,
                            std::int64_t reference_batch) {
  if (global_batch < 1 || reference_batch < 1) {
    throw std::invalid_argument("[nn] scaled_learning_rate: the global batch is " +
                                std::to_string(global_batch) + " and the reference batch " +
                                std::to_string(reference_batch) + ", but both must be positive");
  }
  return reference_rate * static_cast<double>(global_batch) / static_cast<double>(reference_batch);
}

}  // namespace ddp::nn
