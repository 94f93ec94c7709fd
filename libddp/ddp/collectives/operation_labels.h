// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace ddp {

// What operations are for, such as "bucket 4: layer3.*", and the names of meetings: texts that
// events refer to by number. Thread-safe.
class OperationLabels {
 public:
  // 0 stands for no text.
  using Label = std::uint32_t;

  // The number of a text, the same one each time; not for use within a step.
  [[nodiscard]] Label add(const std::string& text);
  [[nodiscard]] std::string text(Label label) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;  // label l is at l - 1
};

}  // namespace ddp
