// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// Which backward passes of a step reduce: the last of those that were announced, and none while a
// no_sync() guard lives.
class PassPlan {
 public:
  // The next `passes` backward passes make one step. std::invalid_argument below 1.
  void announce(int passes);
  void add_guard() { ++guards_; }
  void remove_guard() { --guards_; }

  // Opens a pass, which decides whether it reduces.
  void begin();
  void end();

  // Of the pass that was opened last; true before the first.
  [[nodiscard]] bool reduces() const { return reduces_; }
  // The pass that was opened last is the only one of its step.
  [[nodiscard]] bool is_whole_step() const { return begins_ && reduces_; }
  // The pass that was opened last is the first of its step.
  [[nodiscard]] bool begins_step() const { return begins_; }

 private:
  int guards_ = 0;
  int left_ = 0;  // of the passes that were announced
  bool begins_ = true;
  bool reduces_ = true;
};

}  // namespace ddp
