// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "ddp/base/worker_env.h"
#include "launcher/flags.h"

namespace ddp::launcher {

// The flags that are given, by the command line or else by a variable PET_NAME that is not empty,
// in the order of all_flags(). The last of several counts.
[[nodiscard]] std::vector<GivenFlag> given_flags(const std::vector<GivenFlag>& on_command_line,
                                                 const WorkerEnv::Lookup& environment);

[[nodiscard]] std::string help_text();

}  // namespace ddp::launcher
