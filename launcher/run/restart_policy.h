// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/time.h"

namespace ddp::launcher {

// Whether and when a failed job is started again. It depends only on the failures, so all nodes
// decide alike.
class RestartPolicy {
 public:
  explicit RestartPolicy(int max_restarts) : max_restarts_(max_restarts) {}

  struct Decision {
    std::optional<Timeout> delay;  // before the restart; nothing: no restart
    std::string reason = {};       // why not, where a user would ask
  };

  // `step` is the last step that the rank was known to be in, if any.
  [[nodiscard]] Decision after_failure(int rank, std::optional<std::int64_t> step);

  [[nodiscard]] int restarts() const { return restarts_; }

  static constexpr int kSameFailures = 3;
  static constexpr Timeout kFirstDelay = std::chrono::seconds(1);  // doubled each time
  static constexpr Timeout kLongestDelay = std::chrono::seconds(30);

 private:
  [[nodiscard]] bool is_always_the_same() const;

  int max_restarts_;
  int restarts_ = 0;
  std::vector<std::optional<std::int64_t>> steps_;  // in which the job has failed
};

}  // namespace ddp::launcher
