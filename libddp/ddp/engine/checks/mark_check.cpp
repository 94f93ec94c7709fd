// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/mark_check.h"

#include <stdexcept>
#include <string>

#include "ddp/collectives/group_state.h"

namespace ddp {
namespace {

constexpr auto kDiffers =
    " than in the first pass; passes that differ need UnusedParameters::kZero, not kStatic";

}  // namespace

void MarkCheck::refuse(std::size_t i, std::uint64_t step) const {
  fail(step, "'" + parameters_[i].name +
                 (unused_ == UnusedParameters::kStatic
                      ? std::string("' was marked ready more often") + kDiffers
                      : "' was marked ready twice; mark it after its last use (or learn that by "
                        "UnusedParameters::kStatic), and add several losses before one backward"));
}

void MarkCheck::check_unready(std::uint64_t step, double samples) const {
  const bool may_miss = unused_ == UnusedParameters::kZero || reducer_.is_learning();
  if (samples == 0 || may_miss) return;
  const std::string names = missing();
  if (names.empty()) return;
  fail(step, unused_ == UnusedParameters::kStatic
                 ? "backward gave fewer gradients for " + names + kDiffers
                 : "backward gave no gradient for " + names +
                       ", or did not mark it ready, before wait(). If the step does not use it, "
                       "DdpOptions::unused allows that; frozen parameters are left out when the "
                       "engine is made");
}

std::string MarkCheck::missing() const {
  std::string names;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (reducer_.is_ready(i) || !reducer_.is_expected(i)) continue;
    names += (names.empty() ? "'" : ", '") + parameters_[i].name + "'";
  }
  return names;
}

void MarkCheck::fail(std::uint64_t step, const std::string& what) const {
  const std::string text = "[ddp] " + group_.state().names.rank(group_.rank()) + ", step " +
                           std::to_string(step) + ": " + what;
  group_.abort(text);
  throw std::logic_error(text);
}

}  // namespace ddp
