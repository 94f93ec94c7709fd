// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <functional>

#include "ddp/base/device.h"

namespace ddp::cu {

// Runs `release`, which must not throw, when all work that was enqueued on `device` before has run,
// because kernels and copies may still use what it releases. `release` runs on a thread of its own
// with `device` as the current device.
//
// Returns when `release` is done, but after ten seconds at the latest, because a kernel may wait in
// vain for a peer. In that case it logs one warning. From then on, calls for this device return at
// once, and everything is released when the device becomes idle, if it ever does.
void release_when_idle(Device device, std::function<void()> release) noexcept;

}  // namespace ddp::cu
