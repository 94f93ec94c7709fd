// SPDX-License-Identifier: MIT
#include "ddp/base/net/poll_until.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "ddp/base/error.h"

namespace ddp {
namespace {

// poll takes an int: a far deadline is waited for in pieces.
int milliseconds_until(const std::optional<Deadline>& deadline) {
  if (!deadline) return -1;
  return static_cast<int>(std::min<Timeout>(deadline->remaining(), std::chrono::hours(1)).count());
}

}  // namespace

bool poll_until(std::span<pollfd> entries, const std::optional<Deadline>& deadline) {
  for (;;) {
    const int ready = ::poll(entries.data(), entries.size(), milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0 && deadline->passed()) return false;
    if (ready < 0 && errno != EINTR) throw SystemError("poll failed", errno);
  }
}

}  // namespace ddp
