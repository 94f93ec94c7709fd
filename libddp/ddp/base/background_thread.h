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

}  // namespace ddp
