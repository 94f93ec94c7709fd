// SPDX-License-Identifier: MIT
//
// ddp-prove: see help_text().
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/rank_list.h"
#include "ddp/base/system/write_all.h"
#include "launcher/launch_error.h"
#include "launcher/prove/equivalence.h"
#include "launcher/prove/options.h"
#include "launcher/prove/recorded_run.h"

namespace ddp::prove {
namespace {

void print(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == 0) return;
  throw launcher::LaunchError("cannot write to stdout: " + error_text(error), kFailed);
}

int fail(const std::string& text, int exit_code) {
  // Errors are ignored, since there is nobody to report them to.
  static_cast<void>(write_all(STDERR_FILENO, "ddp-prove: " + text + "\n"));
  return exit_code;
}

using Steps = std::vector<StepSketch>;

std::vector<Steps> by_engine(const Run& run) {
  std::vector<Steps> result(static_cast<std::size_t>(count_engines(run)));
  for (const StepSketch& step : run.steps) {
    result[static_cast<std::size_t>(step.engine)].push_back(step);
  }
  return result;
}

// "engine 1: …; engine 2: …", or without a name if there is only one.
std::string for_each_engine(const Run& run, std::string (*text_of)(const Steps&)) {
  const std::vector<Steps> engines = by_engine(run);
  if (engines.size() == 1) return text_of(engines.front());
  std::string result;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    result += fmt::format("{}engine {}: {}", i == 0 ? "" : "; ", i + 1, text_of(engines[i]));
  }
  return result;
}

std::string number_of_steps(const Steps& steps) { return counted(steps.size(), "step"); }

// "3 steps of 64 samples", or "of 40 to 64 samples".
std::string describe_steps(const Steps& steps) {
  if (steps.empty()) return number_of_steps(steps);
  const auto [least, most] = std::ranges::minmax(steps, {}, &StepSketch::samples);
  const std::string range =
      least.samples == most.samples ? "" : fmt::format("{} to ", least.samples);
  return fmt::format("{} of {}{} samples", number_of_steps(steps), range, most.samples);
}

std::string to_text(const char* what, const Distance& distance, const Run& reference) {
  if (distance.relative == 0) return fmt::format("{} equal", what);
  return fmt::format("{} within {:.1e} ('{}', {})", what, distance.relative, distance.parameter,
                     name_of_step(reference, distance.engine, distance.step));
}

// "gradients within 1.2e-06 ('fc1.weight', step 3), parameters equal".
std::string describe(const Comparison& comparison, const Run& reference) {
  return fmt::format("{}, {}", to_text("gradients", comparison.gradients, reference),
                     to_text("parameters", comparison.values, reference));
}

// Shows how far rounding grows from step to step, which in some models is far.
Run record_control(const Run& reference, const Options& options) {
  Run control = record_run(reference.ranks, options, Start::kNudged);
  constexpr double kAny = std::numeric_limits<double>::infinity();
  print(fmt::format("{}, starting from parameters that differ in their last bits: {}\n",
                    counted(control.ranks, "rank"),
                    describe(compare(reference, control, kAny), reference)));
  return control;
}

// Mistakes with unequal batches show only where there are some.
std::string remark_on_sizes(const Run& run, int steps) {
  const auto differs = [&](const StepSketch& step) {
    return step.samples != run.steps.front().samples;
  };
  if (run.steps.front().samples == run.ranks || std::ranges::any_of(run.steps, differs)) return "";
  const auto most = std::ranges::max(by_engine(run), {}, &Steps::size).size();
  if (most < static_cast<std::size_t>(steps)) {
    return fmt::format(
        "all these steps have {} samples, and the program ended after {} of {}: one that runs "
        "beyond the end of an epoch compares a smaller batch, too\n",
        run.steps.front().samples, most, counted(static_cast<std::size_t>(steps), "step"));
  }
  return fmt::format(
      "all these steps have {} samples: --steps {} or more, beyond the end of an epoch, compares a "
      "smaller batch, too\n",
      run.steps.front().samples, most + 1);
}

// Empty if the run was compared as far as it was to be: an engine that made fewer steps before it
// was destroyed, or before the program ended by itself, was compared in all of its steps.
std::string describe_unfinished(const Run& run, int steps) {
  const auto has_no_step = [](const Steps& made) { return made.empty(); };
  if (!run.is_cut_off && std::ranges::none_of(by_engine(run), has_no_step)) return "";
  return fmt::format(
      "no difference was found, but too few steps were compared: {} (a run ends when each engine "
      "has made {}, or one has made {}): let the others step more often, or the program run longer",
      for_each_engine(run, number_of_steps), counted(static_cast<std::size_t>(steps), "step"),
      std::int64_t{kCutOffAfter} * steps);
}

int prove(const Options& options) {
  const Run reference = record_run(options.ranks.front(), options);
  print(fmt::format("{}: {}\n", counted(reference.ranks, "rank"),
                    for_each_engine(reference, describe_steps)));
  std::string unfinished = describe_unfinished(reference, options.steps);
  std::optional<Run> control;
  for (std::size_t i = 1; i < options.ranks.size(); ++i) {
    const Run other = record_run(options.ranks[i], options);
    Comparison comparison = compare(reference, other, options.tolerance);
    if (comparison.may_be_rounding) {
      if (!control) control = record_control(reference, options);
      comparison = compare(reference, other, options.tolerance, &*control);
    }
    if (!comparison.difference.empty()) {
      return fail(
          fmt::format("{} and {} do not train the same model: {}", counted(reference.ranks, "rank"),
                      counted(other.ranks, "rank"), comparison.difference),
          kDiffer);
    }
    print(fmt::format("{}: {}\n", counted(other.ranks, "rank"), describe(comparison, reference)));
    if (unfinished.empty()) unfinished = describe_unfinished(other, options.steps);
  }
  if (!unfinished.empty()) return fail(unfinished, kFailed);
  print(fmt::format("the same model with any of these numbers of ranks{}\n",
                    control ? ", but for rounding, which grows" : ""));
  print(remark_on_sizes(reference, options.steps));
  return EXIT_SUCCESS;
}

int run(const std::vector<std::string>& args) {
  const Options options = parse_options(args);
  if (!options.help) return prove(options);
  print(help_text());
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace ddp::prove

int main(int argc, char** argv) {
  using ddp::prove::fail;
  try {
    return ddp::prove::run({argv + 1, argv + argc});
  } catch (const ddp::launcher::LaunchError& error) {
    return fail(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    return fail(ddp::describe(error), ddp::prove::kFailed);
  }
}
