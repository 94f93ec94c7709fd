// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

#include "ddp/collectives/flight_recorder.h"

namespace ddp {

// Runs `wait`, in which this rank waits for others of its group in the store: there is no operation
// that could be seen pending, so it is noted in the group's meetings(), and the hang watch sees
// that. All ranks of a group take part in the same meetings in the same order.
//
// A TimeoutError of `wait` is nested in one that says who is missing, if somebody found out.
void meet(FlightRecorder& meetings, const std::string& name, const std::function<void()>& wait);

}  // namespace ddp
