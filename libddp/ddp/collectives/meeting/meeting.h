// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

#include "ddp/collectives/hang/flight_recorder.h"

namespace ddp {

// Runs `wait`, in which this rank waits in the store for other ranks of its group. No operation is
// pending meanwhile, so the wait is recorded in the group's `meetings`, where the hang watch sees
// it. All ranks of a group take part in the same meetings in the same order.
//
// A TimeoutError of `wait` is nested in one that names the missing rank, if the hang watch found
// it.
void meet(FlightRecorder& meetings, const std::string& name, const std::function<void()>& wait);

}  // namespace ddp
