// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <optional>
#include <span>

#include "ddp/base/time.h"

namespace ddp {

// poll(2): waits until one of the entries is ready, and goes on after a signal. False if the
// deadline passed; without one, it waits for ever. Throws SystemError.
bool poll_until(std::span<pollfd> entries, const std::optional<Deadline>& deadline);

}  // namespace ddp
