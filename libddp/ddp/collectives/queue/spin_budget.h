// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// How many times a wait polls before it sleeps. After many futile waits in a row, as when other
// ranks need this CPU, only every kPatience-th wait polls, to find out whether polling helps again.
// kPatience is prime, so that each of several kinds of waits that alternate gets its turn.
class SpinBudget {
 public:
  static constexpr unsigned kPatience = 31;  // waits

  explicit SpinBudget(int looks) : looks_(looks) {}

  [[nodiscard]] int looks() const {
    return in_vain_ < kPatience || in_vain_ % kPatience == 0 ? looks_ : 0;
  }

  // The wait ended after that many futile polls. 0 polls tell nothing: the event may have happened
  // long before this wait.
  void came(int looks) {
    if (looks > 0) in_vain_ = 0;
  }
  void did_not_come() { ++in_vain_; }

 private:
  int looks_;
  unsigned in_vain_ = 0;  // waits in a row that no poll ended
};

}  // namespace ddp
