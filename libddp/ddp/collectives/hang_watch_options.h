// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "ddp/base/time.h"

namespace ddp {

// How the watch for hanging operations works.
struct HangWatchOptions {
  Timeout period = std::chrono::seconds(1);    // between two checks; 0: no watch at all
  Timeout patience = std::chrono::seconds(8);  // an operation pending this long is reported
  Timeout window = std::chrono::seconds(10);   // between two reports of the job
};

}  // namespace ddp
