// SPDX-License-Identifier: MIT
//
// What a user has probably not meant, though nothing is wrong with it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/options/options.h"

namespace ddp::launcher {

// A remark for each variable DDP_… or PET_… that nobody reads and whose name is close to one that
// somebody does. `environment` has entries "NAME=VALUE".
[[nodiscard]] std::vector<std::string> remarks_on_variables(
    std::span<const std::string> environment);

// A remark if one worker is to start and PROGRAM's first argument is ddp-launch's flag for more;
// else empty.
[[nodiscard]] std::string remark_on_flag_behind_program(const Options& options);

}  // namespace ddp::launcher
