// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddp/base/time.h"

namespace ddp::launcher {

// Finds ranks that wait in init_process_group for one which has ended with code 0 and was never
// there, and says so once. It is no failure: a program need not use libddp, nor all of its ranks.
class StartWatch {
 public:
  // Such a rank. From now on the others are looked at every kPeriod.
  void note_absent(int rank);

  // When the next look is due; nothing if there is no need for one.
  [[nodiscard]] std::optional<Deadline> next() const { return next_; }
  [[nodiscard]] bool is_due() const { return next_ && next_->passed(); }

  // A look at those that wait now. Returns the sentence if some did so at the look before, too, as
  // ranks that meet without the absent one do not; else an empty one.
  [[nodiscard]] std::string look(const std::vector<int>& waiting);

  static constexpr Timeout kPeriod{1000};

 private:
  std::vector<int> absent_;
  bool was_waiting_ = false;
  bool is_said_ = false;
  std::optional<Deadline> next_;
};

}  // namespace ddp::launcher
