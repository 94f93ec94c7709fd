// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <functional>

#include "ddp/base/device.h"

namespace ddp::cu {

// Runs `release`, which must not throw, once all that `device` was given before has run: kernels
// and copies may still use what it releases. With `device` as the current one, on a thread of its
// own.
//
// Returns when that is done, but after ten seconds at the latest, because a kernel may wait for a
// peer in vain. One log line tells so; from then on nobody waits, and everything is released when
// the device comes to an end of its work, if ever.
void release_when_idle(Device device, std::function<void()> release) noexcept;

}  // namespace ddp::cu
