// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace ddp::launcher {

// Why a process aborted, as far as the last lines of its stderr tell, in the words of the C++ and C
// libraries: "std::runtime_error: no such file" of an exception that nobody caught, whose first
// line alone is taken, or the text of a failed assertion. Empty if there is no such line.
[[nodiscard]] std::string abort_message(std::span<const std::string> last_lines);

}  // namespace ddp::launcher
