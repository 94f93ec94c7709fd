// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace ddp {

// A thread that blocks all signals, so that they go to the program's own threads. ps and gdb show
// `name`, cut to 15 characters.
[[nodiscard]] std::thread start_background_thread(const std::string& name,
                                                  std::function<void()> body);
// The same for code of the program, such as a dataset: signals are blocked as on the caller's
// thread, since processes that such code starts inherit that.
[[nodiscard]] std::thread start_program_thread(const std::string& name, std::function<void()> body);

// Asks the system to run the calling thread as soon as it wakes, in short turns, without giving it
// more than its share of CPU time. This helps a thread for which peers wait while other threads
// compute. Works on Linux from 6.12 on (a custom slice, sched_setattr(2)); has no effect elsewhere.
void ask_for_short_turns() noexcept;

}  // namespace ddp
