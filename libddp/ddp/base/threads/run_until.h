// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "ddp/base/time.h"

namespace ddp {

// For calls that may hang: runs `action` on a thread of its own. Returns false if it is not done by
// the deadline. The thread then continues unattended, so `action` must own what it uses. Rethrows
// what `action` throws.
[[nodiscard]] bool run_until(Deadline deadline, std::function<void()> action);

// The same, and calls `look` every `period` meanwhile. Also rethrows what `look` throws; the thread
// then continues unattended, too.
[[nodiscard]] bool run_until(Deadline deadline, std::function<void()> action,
                             const std::function<void()>& look, Timeout period);

}  // namespace ddp
