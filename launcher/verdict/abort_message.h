// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace ddp::launcher {

// The reason why a process aborted, from the last lines of its stderr, as the C++ and C libraries
// word it: "std::runtime_error: no such file" for an uncaught exception (only its first line), or
// the text of a failed assertion, or "double free or corruption (out)". Empty if there is no such
// line.
[[nodiscard]] std::string abort_message(std::span<const std::string> last_lines);

}  // namespace ddp::launcher
