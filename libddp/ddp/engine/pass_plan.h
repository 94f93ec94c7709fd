// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// Which backward passes of a step reduce: the last of the announced ones, and none while a
// no_sync() guard lives.
class PassPlan {
 public:
  // The next `passes` backward passes make one step. std::invalid_argument below 1.
  void announce(int passes);
  void add_guard() { ++guards_; }
  void remove_guard() { --guards_; }

  // Opens a pass and decides whether it reduces.
  void begin();
  void end();

  // Whether the current or last pass reduces; true before the first.
  [[nodiscard]] bool reduces() const { return reduces_; }
  // Whether it is the only pass of its step.
  [[nodiscard]] bool is_whole_step() const { return begins_ && reduces_; }
  // Whether it is the first pass of its step.
  [[nodiscard]] bool begins_step() const { return begins_; }

 private:
  int guards_ = 0;
  int left_ = 0;  // of the announced passes
  bool begins_ = true;
  bool reduces_ = true;
};

}  // namespace ddp
