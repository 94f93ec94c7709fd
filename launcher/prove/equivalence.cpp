// SPDX-License-Identifier: MIT
#include "launcher/prove/equivalence.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "ddp/base/rank_list.h"

namespace ddp::prove {
namespace {

using Part = TensorSketch ParameterSketch::*;

// A gradient whose norm is below this fraction of the whole model's may be rounding alone, like
// that of a bias before a batch norm.
constexpr double kNegligible = 1e-4;
// Gradients that are nearer than this come from nearly the same samples.
constexpr double kRelated = 0.05;
// By how much the differences of two right runs may exceed those of a control run. They vary much,
// since rounding matters where it decides on a ReLU or the choice of a max-pool.
constexpr double kControlMargin = 20;

double norm(const TensorSketch& sketch) {
  double sum = 0;
  for (const double projection : sketch) sum += projection * projection;
  return std::sqrt(sum / kProjections);
}

double norm_of_gradients(const StepSketch& step) {
  double sum = 0;
  for (const ParameterSketch& parameter : step.parameters) {
    sum += norm(parameter.gradient) * norm(parameter.gradient);
  }
  return std::sqrt(sum);
}

// Relative to the norm of `a`, or to `floor` if that is larger; 1 if both of these are 0. Infinite
// if there is a NaN.
double relative_distance(const TensorSketch& a, const TensorSketch& b, double floor) {
  TensorSketch apart;
  for (std::size_t j = 0; j < kProjections; ++j) apart[j] = b[j] - a[j];
  if (norm(apart) == 0) return 0;
  const double scale = std::max(norm(a), floor);
  const double relative = norm(apart) / (scale > 0 ? scale : norm(b));
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

void keep_larger(Distance& kept, double relative, const ParameterSketch& parameter,
                 const StepSketch& step) {
  if (relative > kept.relative) kept = {relative, parameter.name, step.engine, step.step};
}

// `before` is the step before in the same engine, if there is one. An optimizer like Adam makes
// full steps of negligible gradients, so what they have moved is not compared.
Distance distance_of_values(const StepSketch& a, const StepSketch& b, const StepSketch* before) {
  const double floor = before == nullptr ? 0 : kNegligible * norm_of_gradients(*before);
  Distance result;
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    const ParameterSketch& parameter = a.parameters[i];
    if (before != nullptr && norm(before->parameters[i].gradient) < floor) continue;
    keep_larger(result, relative_distance(parameter.value, b.parameters[i].value, 0), parameter, a);
  }
  return result;
}

Distance distance_of_gradients(const StepSketch& a, const StepSketch& b) {
  const double floor = kNegligible * norm_of_gradients(a);
  Distance result;
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    const ParameterSketch& parameter = a.parameters[i];
    keep_larger(result, relative_distance(parameter.gradient, b.parameters[i].gradient, floor),
                parameter, a);
  }
  return result;
}

// c, if all gradients of `b` are c times those of `a`.
std::optional<double> common_factor(const StepSketch& a, const StepSketch& b, double tolerance) {
  double aa = 0;
  double ab = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    for (std::size_t j = 0; j < kProjections; ++j) {
      const double x = a.parameters[i].gradient[j];
      const double y = b.parameters[i].gradient[j];
      aa += x * x;
      ab += x * y;
      bb += y * y;
    }
  }
  const double rest = std::sqrt(std::max(0.0, 1 - ab * ab / (aa * bb)));
  if (!(rest <= tolerance)) return std::nullopt;
  return ab / aa;
}

bool is_near(double a, double b) { return std::abs(a / b - 1) < 0.01; }

std::string cause_of_factor(double factor, double growth) {
  if (is_near(factor, growth)) {
    return "they are summed over ranks, not averaged: is the loss a sum, where GradientKind::kMean "
           "expects a mean, or multiplied by the number of ranks?";
  }
  if (is_near(factor, 1 / growth)) {
    return "they are divided by the number of ranks twice: the engine has done it already";
  }
  return "multiply the mean loss by what begin_step returns, and give begin_step the number of "
         "samples in that mean";
}

// `before` may be null.
std::string cause_of_distance(double relative, const StepSketch& step, const StepSketch* before,
                              int ranks) {
  if (std::isinf(relative)) return "it is infinite or not a number";
  if (before != nullptr && step.samples != before->samples) {
    return fmt::format(
        "this step has {} samples and the one before {}: is the mean loss multiplied by what "
        "begin_step returns?",
        step.samples, before->samples);
  }
  if (relative < kRelated) {
    return "a mean of the ranks' means, where their batches are unequal? If it is rounding, as of "
           "16-bit arithmetic, it vanishes in float64, and a larger --tolerance allows it";
  }
  std::string text = fmt::format(
      "with {}, is each sample of the global batch read once (a sampler with rank and world size, "
      "and the same seed on all)? Do dropout or augmentation depend on the rank?",
      counted(ranks, "rank"));
  if (step.has_buffers) {
    text += " Does batch norm see the rank's own batch alone (convert_sync_batchnorm)?";
  }
  return text;
}

bool have_same_parameters(const StepSketch& a, const StepSketch& b) {
  const auto is_same = [](const ParameterSketch& x, const ParameterSketch& y) {
    return x.name == y.name && x.count == y.count;
  };
  return a.engine == b.engine && std::ranges::equal(a.parameters, b.parameters, is_same);
}

const StepSketch* step_before(const Run& run, std::size_t k) {
  for (std::size_t i = k; i > 0; --i) {
    if (run.steps[i - 1].engine == run.steps[k].engine) return &run.steps[i - 1];
  }
  return nullptr;
}

class Comparer {
 public:
  Comparer(const Run& reference, const Run& other, double tolerance, const Run* control)
      : reference_(reference), other_(other), tolerance_(tolerance), control_(control) {}

  Comparison run() {
    const std::size_t steps = std::min(reference_.steps.size(), other_.steps.size());
    for (std::size_t k = 0; k < steps && result_.difference.empty(); ++k) {
      result_.difference = difference_in_step(k);
    }
    if (result_.difference.empty() && reference_.steps.size() != other_.steps.size()) {
      const bool is_longer = reference_.steps.size() > steps;
      result_.difference =
          difference_in_count((is_longer ? reference_ : other_).steps[steps].engine);
    }
    return std::move(result_);
  }

 private:
  // "samples: 60 with 1 rank, but 180 with 3 ranks".
  template <class T>
  [[nodiscard]] std::string differ(std::string_view what, T a, T b) const {
    return fmt::format("{}: {} with {}, but {} with {}", what, a, counted(reference_.ranks, "rank"),
                       b, counted(other_.ranks, "rank"));
  }

  [[nodiscard]] std::string difference_in_count(int engine) const {
    const auto count = [&](const Run& run) {
      return std::ranges::count(run.steps, engine, &StepSketch::engine);
    };
    const bool is_one = std::max(count_engines(reference_), count_engines(other_)) == 1;
    return differ(is_one ? "steps" : fmt::format("steps of engine {}", engine + 1),
                  count(reference_), count(other_));
  }

  std::string difference_in_step(std::size_t k) {
    const StepSketch& a = reference_.steps[k];
    const StepSketch& b = other_.steps[k];
    std::string text;
    if (a.engine != b.engine) return difference_in_count(std::min(a.engine, b.engine));
    if (!have_same_parameters(a, b)) text = "the models have different parameters";
    const StepSketch* before = step_before(reference_, k);
    const StepSketch* control = control_of(k);
    if (text.empty()) text = difference_of_values(a, b, before, is_first(a) ? nullptr : control);
    if (text.empty()) text = difference_of_samples(a, b);
    if (text.empty()) text = difference_of_gradients(a, b, before, control);
    if (text.empty()) return "";
    result_.may_be_rounding = result_.may_be_rounding || !is_first(a);
    return fmt::format("{}: {}", name_of_step(reference_, a.engine, a.step), text);
  }

  // Of the steps of all engines, since any of these makes rounding grow.
  [[nodiscard]] bool is_first(const StepSketch& step) const {
    const auto first =
        std::ranges::find(reference_.steps, reference_.first_engine, &StepSketch::engine);
    return &step == &*first;
  }

  // Null if the control run is of no use for this step.
  [[nodiscard]] const StepSketch* control_of(std::size_t k) const {
    if (control_ == nullptr || control_->steps.size() <= k) return nullptr;
    const StepSketch& control = control_->steps[k];
    return have_same_parameters(reference_.steps[k], control) ? &control : nullptr;
  }

  // Whether a distance counts as a difference.
  [[nodiscard]] bool is_far(const Distance& distance, const Distance& of_control) const {
    const double control = std::isfinite(of_control.relative) ? of_control.relative : 0;
    return distance.relative > std::max(tolerance_, kControlMargin * control);
  }

  std::string difference_of_values(const StepSketch& a, const StepSketch& b,
                                   const StepSketch* before, const StepSketch* control) {
    const Distance distance = distance_of_values(a, b, before);
    if (distance.relative > result_.values.relative) result_.values = distance;
    const Distance of_control =
        control == nullptr ? Distance() : distance_of_values(a, *control, before);
    if (!is_far(distance, of_control)) return "";
    const std::string what =
        fmt::format("parameter '{}' differs by {:.2g}", distance.parameter, distance.relative);
    if (before == nullptr) {
      return what +
             " before any step: give the model the same seed on every rank, and for every number "
             "of ranks, and let it not resume from a file that an earlier run has written";
    }
    return what +
           ", although its gradient was the same: does the learning rate depend on the "
           "number of ranks, or does the optimizer leave out gradient_scale() with fold_scale?";
  }

  // A program that leaves StepOptions::samples out has one on each rank.
  [[nodiscard]] std::string difference_of_samples(const StepSketch& a, const StepSketch& b) const {
    const bool is_counted = a.samples != reference_.ranks || b.samples != other_.ranks;
    if (a.samples == b.samples || !is_counted) return "";
    return differ("samples", a.samples, b.samples) +
           ": keep the global batch, and divide it by the number of ranks";
  }

  // Rounding does not scale all gradients alike; after the first step, what it has done to the
  // parameters may.
  std::string difference_of_gradients(const StepSketch& a, const StepSketch& b,
                                      const StepSketch* before, const StepSketch* control) {
    const Distance distance = distance_of_gradients(a, b);
    if (distance.relative > result_.gradients.relative) result_.gradients = distance;
    const auto factor = common_factor(a, b, tolerance_);
    const bool is_scaled = factor && std::abs(*factor - 1) > tolerance_;
    const bool has_control = control != nullptr && !(is_first(a) && is_scaled);
    const Distance of_control = has_control ? distance_of_gradients(a, *control) : Distance();
    if (!is_far(distance, of_control)) return "";
    if (is_scaled) {
      return fmt::format("all gradients are {:.4g} times those with {}: {}", *factor,
                         counted(reference_.ranks, "rank"),
                         cause_of_factor(*factor, 1.0 * other_.ranks / reference_.ranks));
    }
    result_.may_be_rounding = distance.relative < kRelated;
    const std::string of_last_bits =
        has_control
            ? fmt::format(" (changing only the last bits of the parameters changes one by {:.2g})",
                          of_control.relative)
            : "";
    return fmt::format("the gradient of '{}' differs by {:.2g}{}: {}", distance.parameter,
                       distance.relative, of_last_bits,
                       cause_of_distance(distance.relative, a, before, other_.ranks));
  }

  const Run& reference_;
  const Run& other_;
  double tolerance_;
  const Run* control_;  // may be null
  Comparison result_;
};

}  // namespace

int count_engines(const Run& run) {
  return run.steps.empty() ? 0 : std::ranges::max(run.steps, {}, &StepSketch::engines).engines;
}

std::string name_of_step(const Run& run, int engine, std::uint64_t step) {
  const std::string text = fmt::format("step {}", step);
  return count_engines(run) > 1 ? fmt::format("engine {}, {}", engine + 1, text) : text;
}

Comparison compare(const Run& reference, const Run& other, double tolerance, const Run* control) {
  return Comparer(reference, other, tolerance, control).run();
}

}  // namespace ddp::prove
