// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ddp {

// What a time usually is: the median of the last few values, computed anew at every fourth one.
class UsualTime {
 public:
  static constexpr double kFarLonger = 10;  // times the usual

  // Adds a value, and returns whether it is far longer than usual. False while too few are known.
  [[nodiscard]] bool is_far_longer(double seconds) {
    const bool is_it = usual_ > 0 && seconds >= kFarLonger * usual_;
    recent_[seen_++ % kRecent] = seconds;
    if (seen_ >= kLeast && seen_ % 4 == 1) usual_ = median();
    return is_it;
  }

 private:
  static constexpr std::size_t kRecent = 15;
  static constexpr std::uint64_t kLeast = 5;

  [[nodiscard]] double median() const {
    std::array<double, kRecent> sorted = recent_;
    const auto known = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(seen_, kRecent));
    std::nth_element(sorted.begin(), sorted.begin() + known / 2, sorted.begin() + known);
    return sorted[static_cast<std::size_t>(known / 2)];
  }

  std::array<double, kRecent> recent_ = {};
  std::uint64_t seen_ = 0;
  double usual_ = 0;
};

}  // namespace ddp
