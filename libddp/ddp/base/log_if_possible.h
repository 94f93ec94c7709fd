// SPDX-License-Identifier: MIT
#pragma once

#include <exception>

namespace ddp {

// Calls `log`, which composes and writes a line, and ignores what it throws: what is to be said may
// be that memory is exhausted, and the thread must go on.
template <class Log>
void log_if_possible(const Log& log) noexcept {
  try {
    log();
  } catch (const std::exception&) {
  }
}

}  // namespace ddp
