// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/time.h"

namespace ddp::launcher {

// Whether a job that failed is started again, and when. All nodes come to the same answer: it
// depends on the failures alone.
class RestartPolicy {
 public:
  explicit RestartPolicy(int max_restarts) : max_restarts_(max_restarts) {}

  struct Decision {
    std::optional<Timeout> delay;  // before the restart; nothing: no more
    std::string reason = {};       // why no more, where a user would ask
  };

  // `step` is the last one that the rank was known to be in, if it was.
  [[nodiscard]] Decision after_failure(int rank, std::optional<std::int64_t> step);

  [[nodiscard]] int restarts() const { return restarts_; }

  static constexpr int kSameFailures = 3;
  static constexpr Timeout kFirstDelay = std::chrono::seconds(1);  // doubled each time
  static constexpr Timeout kLongestDelay = std::chrono::seconds(30);

 private:
  [[nodiscard]] bool is_always_the_same() const;

  int max_restarts_;
  int restarts_ = 0;
  std::vector<std::pair<int, std::optional<std::int64_t>>> failures_;
};

}  // namespace ddp::launcher
