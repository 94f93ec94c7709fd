// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/step_warnings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ddp/base/log.h"

namespace ddp {
namespace {

// No loop that ends makes so many steps in a row without samples on any rank.
constexpr std::uint64_t kEndlessSteps = 10;
// A trainer may look at some steps before its optimizer takes one.
constexpr std::uint64_t kStepsToAsk = 10;

}  // namespace

void StepWarnings::look(const ControlLedger& ledger, std::uint64_t steps_before,
                        std::uint64_t skipped_steps) {
  if (ledger.steps() == 0) return;
  const std::uint64_t steps = steps_before + ledger.steps();
  if (!has_told_who_ran_out_) look_for_ranks_without_data(ledger, steps);
  if (!has_told_endless_loop_) look_for_endless_loop(ledger);
  if (!has_told_bad_metric_ && non_finite_ == NonFinite::kIgnore) {
    look_for_bad_metric(ledger, steps);
  }
  if (awaits_scale_) look_for_forgotten_scale(ledger, skipped_steps);
}

void StepWarnings::look_for_ranks_without_data(const ControlLedger& ledger, std::uint64_t steps) {
  const int ranks = static_cast<int>(ledger.times().size());
  const int active = ledger.last().active_ranks;
  if (active == 0 || active == ranks) return;
  std::vector<int> idle;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!ledger.is_active(rank)) idle.push_back(rank);
  }
  logging::warning(
      fmt::format("[ddp] {} ran out of data after step {}; the job goes on with empty batches "
                  "there until all ranks have run out",
                  names_.ranks(idle), steps - 1));
  has_told_who_ran_out_ = true;
}

void StepWarnings::look_for_endless_loop(const ControlLedger& ledger) {
  if (ledger.steps_without_samples() < kEndlessSteps) return;
  logging::warning(
      fmt::format("[ddp] {} steps in a row had no samples on any rank: a rank whose data have run "
                  "out says so with StepOptions::is_active = false, or is_over() never ends the "
                  "loop",
                  ledger.steps_without_samples()));
  has_told_endless_loop_ = true;
}

void StepWarnings::look_for_bad_metric(const ControlLedger& ledger, std::uint64_t steps) {
  const auto& metrics = ledger.last().metrics;
  const auto bad = std::ranges::find_if(metrics, [](const StepSummary::Metric& metric) {
    return metric.weight > 0 && !std::isfinite(metric.sum);
  });
  if (bad == metrics.end()) return;
  logging::warning(fmt::format(
      "[ddp] metric {} is {} in step {}; as DdpOptions::non_finite is not set, the engine neither "
      "stops nor skips steps whose gradients are not finite",
      bad - metrics.begin(), std::isnan(bad->sum) ? "nan" : "infinite", steps));
  has_told_bad_metric_ = true;
}

// In the steps before the ledger's last one, that is. The optimizer takes no step whose gradients
// are not finite, or that had no samples.
void StepWarnings::look_for_forgotten_scale(const ControlLedger& ledger,
                                            std::uint64_t skipped_steps) {
  if (ledger.last().samples > 0) ++steps_with_samples_;
  if (steps_with_samples_ <= skipped_steps + kStepsToAsk) return;
  logging::warning(fmt::format(
      "[ddp] DdpOptions::fold_scale leaves the division to the optimizer, but nothing has called "
      "gradient_scale() in the first {} steps that it could take: the gradients are sums over the "
      "ranks, not means",
      kStepsToAsk));
  awaits_scale_ = false;
}

}  // namespace ddp
