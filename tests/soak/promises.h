// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ddp::soak {

// Prints what was measured beside what was promised, a line each, and remembers whether all
// promises were kept.
class Promises {
 public:
  explicit Promises(std::function<void(const std::string& line)> print);

  // Every one of the times, in milliseconds, is at most the promised one, or at least. There must
  // be at least one.
  void at_most(const std::string& what, double promise_ms, const std::vector<double>& times);
  void at_least(const std::string& what, double promise_ms, const std::vector<double>& times);
  // Another finding, in the caller's words.
  void finding(const std::string& text, bool is_kept);

  [[nodiscard]] bool all_kept() const { return all_kept_; }

 private:
  std::function<void(const std::string&)> print_;
  bool all_kept_ = true;
};

}  // namespace ddp::soak
