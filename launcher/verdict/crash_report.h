// SPDX-License-Identifier: MIT
//
// Reads what ddp/base/system/crash_record.h writes.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

// The innermost functions, at most kMostCrashFrames, from the record that a worker left at `path`
// when `signal_number` killed it, such as "step(Batch const&) (train+0x1f2e4)". The brackets
// contain the program or library and the address for addr2line; if addr2line is installed and the
// program was built with -g, they contain "train.cpp:57" instead. Frames of the runtime libraries
// between abort and the failing function are left out, and so are those that start a thread or call
// main. Empty if there is no record, or for a signal that leaves none.
[[nodiscard]] std::vector<std::string> read_crash_record(const std::string& path,
                                                         int signal_number);

inline constexpr std::size_t kMostCrashFrames = 6;

}  // namespace ddp::launcher
