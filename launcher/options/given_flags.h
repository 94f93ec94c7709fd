// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "ddp/base/worker_env.h"
#include "launcher/options/flags.h"

namespace ddp::launcher {

// The flags that are set, on the command line or else by a nonempty variable PET_NAME, in the order
// of all_flags(). If a flag is given several times, the last one counts.
[[nodiscard]] std::vector<GivenFlag> given_flags(const std::vector<GivenFlag>& on_command_line,
                                                 const WorkerEnv::Lookup& environment);

// "PET_NNODES": the variable that sets the flag's default.
[[nodiscard]] std::string variable_of(const Flag& flag);

[[nodiscard]] std::string help_text();

}  // namespace ddp::launcher
