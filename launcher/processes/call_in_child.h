// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

#include "ddp/base/time.h"

namespace ddp::launcher {

// Runs `function` in a forked process and returns what it has returned there. For libraries that
// leave threads behind, beside which this process could not safely fork, or that may crash or hang.
// The process dies with the calling thread. Throws std::runtime_error if it ends without an answer
// ("was killed by SIGSEGV"), for example since `function` has thrown, or does not answer in time;
// SystemError if there can be no such process.
[[nodiscard]] std::string call_in_child(const std::function<std::string()>& function,
                                        Timeout timeout);

}  // namespace ddp::launcher
