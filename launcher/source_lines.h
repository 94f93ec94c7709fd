// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "ddp/base/time.h"

namespace ddp::launcher {

// Asks addr2line, or llvm-addr2line, where in the sources something is. All questions together take
// little time, since somebody waits for the answers.
class SourceLines {
 public:
  // "train.cpp:57", without folders; empty if that is not known, or not soon enough.
  [[nodiscard]] std::string line_of(const std::string& module, std::uint64_t address);

  static constexpr Timeout kPatience = std::chrono::seconds(3);

 private:
  Deadline end_ = Deadline::after(kPatience);
};

}  // namespace ddp::launcher
