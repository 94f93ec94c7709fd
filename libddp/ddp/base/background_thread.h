// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace ddp {

// A thread that takes no signals (they stay with the program's own threads) and shows `name`, cut
// to 15 characters, in ps and gdb.
[[nodiscard]] std::thread start_background_thread(const std::string& name,
                                                  std::function<void()> body);

// Asks the system to run the calling thread as soon as it wakes, in short turns and at no more CPU
// time than its share: for one that peers wait for, beside threads that compute. Linux knows this
// from 6.12 on (as a slice of its own, sched_setattr(2)); elsewhere nothing changes.
void ask_for_short_turns() noexcept;

}  // namespace ddp
