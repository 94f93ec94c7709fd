// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace ddp {

// Decides which backward passes reduce: the last of the announced passes of a step, but none while
// a no_sync() guard exists.
class PassPlan {
 public:
  // The next `passes` backward passes form one step. Throws std::invalid_argument if `passes` is
  // below 1.
  void announce(int passes);
  void add_guard() { ++guards_; }
  void remove_guard() { --guards_; }

  // Opens a pass, and decides whether it reduces.
  void begin() {
    begins_ = reduces_;
    reduces_ = guards_ == 0 && left_ <= 1;
    is_guarded_ = guards_ > 0;
    guarded_in_a_row_ = reduces_ ? 0 : guarded_in_a_row_ + (is_guarded_ ? 1 : 0);
  }
  void end() {
    if (left_ > 0) --left_;
  }

  // Whether the pass that was opened last reduces; true before the first pass.
  [[nodiscard]] bool reduces() const { return reduces_; }
  // Whether a guard kept the pass that was opened last from reducing: nothing says which pass will.
  [[nodiscard]] bool is_guarded() const { return is_guarded_; }
  // How many passes a guard has kept from reducing since the last one that reduced.
  [[nodiscard]] std::int64_t guarded_in_a_row() const { return guarded_in_a_row_; }
  // True if the pass that was opened last is the only one of its step.
  [[nodiscard]] bool is_whole_step() const { return begins_ && reduces_; }
  // True if the pass that was opened last is the first of its step.
  [[nodiscard]] bool begins_step() const { return begins_; }

 private:
  int guards_ = 0;
  int left_ = 0;  // announced passes that have not ended
  bool begins_ = true;
  bool reduces_ = true;
  bool is_guarded_ = false;
  std::int64_t guarded_in_a_row_ = 0;
};

}  // namespace ddp
