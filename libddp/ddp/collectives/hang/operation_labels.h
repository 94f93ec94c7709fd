// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace ddp {

// Texts to which events refer by number: what operations are for, such as "bucket 4: layer3.*", and
// the names of meetings. Thread-safe.
class OperationLabels {
 public:
  // 0 means no text.
  using Label = std::uint32_t;

  // The number of a text, the same each time. Not for use within a step.
  [[nodiscard]] Label add(const std::string& text);
  [[nodiscard]] std::string text(Label label) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;  // label l is at l - 1
};

}  // namespace ddp
