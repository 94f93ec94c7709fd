// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "ddp/base/time.h"

namespace ddp {

// How a hang is watched for.
struct HangWatchOptions {
  Timeout period = std::chrono::seconds(1);    // between two looks; 0: no watch at all
  Timeout patience = std::chrono::seconds(8);  // with a pending operation, before a line says so
  Timeout window = std::chrono::seconds(10);   // between two such lines of the job
};

}  // namespace ddp
