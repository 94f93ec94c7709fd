// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/step_costs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "ddp/base/rank_list.h"
#include "ddp/engine/statistics/straggler_finder.h"

namespace ddp {
namespace {

// The fraction of a step below which a loss is not worth advice.
constexpr double kNoticeableLoss = 0.05;

// Fewer steps show nothing that is worth advice.
constexpr std::uint64_t kFewestSteps = 10;

// A rank that is the last in more steps than this is not one of many.
constexpr double kMostSteps = 0.8;

// Below this many bytes in a step, reductions take as long as their messages' latencies do, and
// smaller messages or buckets help nothing.
constexpr std::size_t kWorthCompressing = 1 << 16;

// Handing over a batch takes about as long, however many threads gather batches.
constexpr double kHandOverSeconds = 2e-4;

double percent_of_step(const StepCosts& costs, double seconds) {
  return costs.step_seconds() > 0 ? 100 * seconds / costs.step_seconds() : 0;
}

std::string duration(double seconds) {
  if (seconds >= 10) return fmt::format("{:.1f} s", seconds);
  const double ms = 1000 * seconds;
  if (ms < 0.1) return fmt::format("{:.1f} us", 1000 * ms);
  return fmt::format("{:.{}f} ms", ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

std::string byte_size(std::size_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size < 1e5) return fmt::format("{:.1f} kB", size / 1e3);
  return fmt::format("{:.{}f} MB", size / 1e6, size < 1e7 ? 2 : 0);
}

std::string headline(const StepCosts& costs) {
  const std::string steps = counted(costs.steps, "step") + " of " + duration(costs.step_seconds());
  if (costs.world_size == 1) return steps + " on 1 rank\n";
  return fmt::format("{} on {} ranks; estimated speed-up over one rank: {:.2f}\n", steps,
                     costs.world_size, costs.speed_up);
}

std::string table(const StepCosts& costs) {
  const int decimals = costs.step_seconds() < 0.1 ? 2 : 0;
  const auto row = [&](std::string_view what, double seconds, std::string_view meaning) {
    const std::string ms = fmt::format("{:.{}f}", 1000 * seconds, decimals);
    return fmt::format("  {:<21} {:>8} ms {:>5.1f} %{}\n", what, ms,
                       percent_of_step(costs, seconds), meaning);
  };
  std::string text = row("compute", costs.compute_seconds, "");
  if (costs.world_size > 1) {
    text += row("exposed communication", costs.exposed_seconds, "  not hidden behind backward");
  }
  text += row("data wait", costs.data_seconds, "  for the next batch");
  if (costs.world_size > 1) {
    text += row("straggler wait", costs.straggler_seconds, "  for the slowest rank");
  }
  return text;
}

std::string communication(const StepCosts& costs) {
  if (costs.world_size == 1) return "";
  const std::string bytes = byte_size(costs.bytes) + " reduced in each step";
  if (!costs.bus_bandwidth) return bytes + "\n";
  return fmt::format("{} at {:.2f} GB/s (bus bandwidth), {:.0f} % of that time hidden\n", bytes,
                     *costs.bus_bandwidth / 1e9, 100 * costs.overlap.value_or(0));
}

std::string left_out(const StepCosts& costs) {
  std::string text;
  if (costs.pauses > 0) {
    text += fmt::format("left out: {}, {} in all (such as evaluation, saving or a suspension)\n",
                        counted(costs.pauses, "far longer step"), duration(costs.pause_seconds));
  }
  if (const Stalls& stalls = costs.stalls; stalls.steps > 0) {
    text += fmt::format(
        "left out: {} in which one rank stood still, {} in all; the longest was rank {}'s, {}\n",
        counted(stalls.steps, "step"), duration(stalls.seconds), stalls.rank,
        duration(stalls.longest_seconds));
  }
  return text;
}

// True if the costliest straggler explains more than half of the waiting.
bool has_culprit(const StepCosts& costs) {
  if (costs.stragglers.empty()) return false;
  const Straggler& worst = costs.stragglers.front();
  const double late = worst.late_seconds * static_cast<double>(worst.steps);
  const double waited = costs.straggler_seconds * static_cast<double>(costs.steps);
  return late * (costs.world_size - 1) / costs.world_size > waited / 2;
}

std::string advice_on_straggler(const StepCosts& costs) {
  if (costs.beside_idle_seconds > costs.straggler_seconds / 2) {
    return fmt::format(
        "in {} of {} steps, some rank had no samples and waited for the others: share the data "
        "evenly, or give each step samples for all ranks (in each of its passes)",
        costs.idle_steps, costs.steps);
  }
  const bool is_one_rank = costs.most_often_last.fraction > kMostSteps;
  if (!has_culprit(costs) && is_one_rank) {
    return fmt::format(
        "rank {} is the last in {:.0f} % of the steps, late now more, now less: it may have more "
        "samples than the others, a slower or shared device, or other processes on its machine",
        costs.most_often_last.rank, 100 * costs.most_often_last.fraction);
  }
  if (!has_culprit(costs)) {
    return fmt::format(
        "ranks wait for each other, though none is always late (rank {} is the last in {:.0f} % of "
        "the steps): their batches may be uneven, or their machines busy with other work",
        costs.most_often_last.rank, 100 * costs.most_often_last.fraction);
  }
  const Straggler& worst = costs.stragglers.front();
  const std::uint64_t counted = costs.steps - costs.steps % StragglerFinder::kBlock;
  const std::string when = worst.steps >= counted
                               ? "each step"
                               : fmt::format("{} of {} steps", worst.steps, costs.steps);
  const std::string who =
      fmt::format("rank {} is {} late in {}", worst.rank, duration(worst.late_seconds), when);
  if (worst.cause == Lateness::kData) {
    return who + " (data): give its loader more threads (num_workers), or check its disk";
  }
  return who +
         " (compute): it may have more samples than the others, a slower or shared device, or "
         "other processes on its machine";
}

std::string advice_on_communication(const StepCosts& costs) {
  std::string remedies = "larger batches or accumulate() make it rarer";
  const bool is_small = costs.bytes < kWorthCompressing;
  if (!is_small && !costs.on_cpu) remedies += ", bf16 compression makes it smaller";
  const bool could_hide = costs.exposed_seconds < costs.compute_seconds;
  if (is_small || !could_hide || !costs.overlap || *costs.overlap > 0.5) {
    return "communication is exposed: " + remedies;
  }
  return fmt::format(
      "only {:.0f} % of the communication is hidden: smaller buckets let it start earlier; {}",
      100 * *costs.overlap, remedies);
}

}  // namespace

std::string advice_on(const StepCosts& costs) {
  if (costs.steps < kFewestSteps) return "too few steps to tell";
  const double loss =
      std::max({costs.straggler_seconds, costs.data_seconds, costs.exposed_seconds});
  if (loss < kNoticeableLoss * costs.step_seconds()) {
    return fmt::format("nothing stands out: {:.0f} % of a step is compute",
                       percent_of_step(costs, costs.compute_seconds));
  }
  if (loss == costs.straggler_seconds) return advice_on_straggler(costs);
  if (loss == costs.exposed_seconds) return advice_on_communication(costs);
  if (loss < kHandOverSeconds) {
    return fmt::format(
        "ranks wait {} for each batch, about as long as it takes to hand one over: larger batches "
        "make that rarer",
        duration(loss));
  }
  return "ranks wait for data: use more loader threads (num_workers), a faster disk, or cheaper "
         "transforms";
}

std::string format_report(const StepCosts& costs) {
  if (costs.steps == 0) return "step costs: too few steps to tell\n";
  return headline(costs) + table(costs) + communication(costs) + left_out(costs) +
         "advice: " + advice_on(costs) + "\n";
}

}  // namespace ddp
