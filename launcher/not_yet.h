// SPDX-License-Identifier: MIT
#pragma once

#include "launcher/options.h"

namespace ddp::launcher {

// Throws LaunchError if the options ask for what they can express but nothing does yet.
void refuse_unbuilt(const Options& options);

}  // namespace ddp::launcher
