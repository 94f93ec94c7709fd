// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "ddp/collectives/hang/flight_recorder.h"

namespace ddp {

// A recorder's last events as text: a line with `title`, then a line for each event, the oldest
// first, with its time before now, its step and what happened:
//
//   [title] 3 events until 2026-11-23 09:40:12 UTC
//       -0.001204 s  step 457  all_reduce #912 (bucket 4: layer3.*): submitted
//       -0.001101 s  step 457  all_reduce #912 (bucket 4: layer3.*): started
//       -0.000010 s  step 457  the group broke
[[nodiscard]] std::string describe_events(const FlightRecorder& recorder, std::string_view title);

// For a group that breaks, before its waiting calls throw: the process may end right after that.
// Appends that text and a line with `error` to the file that DDP_EVENTS_FILE names, in one piece,
// since other ranks may append to it at the same time. Does nothing without that variable. That the
// file cannot be written is logged.
void append_to_events_file(const FlightRecorder& recorder, std::string_view title,
                           std::string_view error) noexcept;

}  // namespace ddp
