// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "ddp/base/time.h"

namespace ddp::launcher {

// Asks addr2line, or llvm-addr2line, for source positions. All queries together have little time,
// since the user waits for the launcher to end.
class SourceLines {
 public:
  // "train.cpp:57", without folders; empty if that is not known, or not soon enough.
  [[nodiscard]] std::string line_of(const std::string& module, std::uint64_t address);

  static constexpr Timeout kPatience = std::chrono::seconds(3);

 private:
  Deadline end_ = Deadline::after(kPatience);
};

}  // namespace ddp::launcher
