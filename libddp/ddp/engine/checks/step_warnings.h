// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "ddp/collectives/group_names.h"
#include "ddp/engine/control_ledger.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// Warnings about what the ranks have told each other. Each kind is logged once.
class StepWarnings {
 public:
  // `folds_scale`: the optimizer must ask for the scale.
  StepWarnings(GroupNames names, NonFinite non_finite, bool folds_scale)
      : names_(std::move(names)), non_finite_(non_finite), awaits_scale_(folds_scale) {}

  void note_scale_asked() { awaits_scale_ = false; }

  // Logs what is due after the ledger's last step; to be called for each. `steps_before` is the
  // number of steps that the training had before those of the ledger, of which `skipped_steps` were
  // not finite.
  void look(const ControlLedger& ledger, std::uint64_t steps_before, std::uint64_t skipped_steps);

 private:
  void look_for_ranks_without_data(const ControlLedger& ledger, std::uint64_t steps);
  void look_for_endless_loop(const ControlLedger& ledger);
  void look_for_bad_metric(const ControlLedger& ledger, std::uint64_t steps);
  void look_for_forgotten_scale(const ControlLedger& ledger, std::uint64_t skipped_steps);

  GroupNames names_;
  NonFinite non_finite_;
  bool awaits_scale_;  // nothing has asked for it yet
  std::uint64_t steps_with_samples_ = 0;
  bool has_told_who_ran_out_ = false;
  bool has_told_endless_loop_ = false;
  bool has_told_bad_metric_ = false;
};

}  // namespace ddp
