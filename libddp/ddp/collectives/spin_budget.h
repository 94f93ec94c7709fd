// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// How many times a wait looks again before it sleeps. Where looking has been in vain many times in
// a row, as when the others want this very CPU, only every kPatience-th wait does, to find out
// whether it helps once more. That is a prime, so that of waits which take turns each gets one.
class SpinBudget {
 public:
  static constexpr unsigned kPatience = 31;  // waits

  explicit SpinBudget(int looks) : looks_(looks) {}

  [[nodiscard]] int looks() const {
    return in_vain_ < kPatience || in_vain_ % kPatience == 0 ? looks_ : 0;
  }

  // What was waited for came after that many looks in vain. At once says nothing: it may have come
  // long before this wait.
  void came(int looks) {
    if (looks > 0) in_vain_ = 0;
  }
  void did_not_come() { ++in_vain_; }

 private:
  int looks_;
  unsigned in_vain_ = 0;  // in a row
};

}  // namespace ddp
