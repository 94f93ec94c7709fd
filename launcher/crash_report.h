// SPDX-License-Identifier: MIT
//
// The other end of ddp/base/crash_record.h.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

// The innermost functions, at most kMostCrashFrames, of what a worker left at `path` when
// `signal_number` killed it, e.g. "step(Batch const&) (train+0x1f2e4)". In the brackets stand the
// program or library, with the address that addr2line takes, or, where addr2line is installed and
// the program was built with -g, "train.cpp:57". Of an abort those are left out by which the
// language's libraries got there, and likewise what starts a thread or calls main. Empty if there
// is no record, or the signal is not one of those that leave one.
[[nodiscard]] std::vector<std::string> read_crash_record(const std::string& path,
                                                         int signal_number);

inline constexpr std::size_t kMostCrashFrames = 6;

}  // namespace ddp::launcher
