// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddp/base/time.h"

namespace ddp::launcher {

// Finds ranks that wait in init_process_group for a rank that has ended with code 0 without calling
// it, and says so once. This is not a failure: a program need not use libddp, nor all of its ranks.
class StartWatch {
 public:
  // Records a rank that ended without joining. From now on the others are checked every kPeriod.
  void note_absent(int rank);

  // When the next check is due; nothing if none is needed.
  [[nodiscard]] std::optional<Deadline> next() const { return next_; }
  [[nodiscard]] bool is_due() const { return next_ && next_->passed(); }

  // Checks the ranks that wait now. Returns the sentence if some of them were waiting at the
  // previous check, too, which ranks that can meet without the absent one would not be; else an
  // empty text.
  [[nodiscard]] std::string look(const std::vector<int>& waiting);

  static constexpr Timeout kPeriod{1000};

 private:
  std::vector<int> absent_;
  bool was_waiting_ = false;
  bool is_said_ = false;
  std::optional<Deadline> next_;
};

}  // namespace ddp::launcher
