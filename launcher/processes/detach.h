// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

namespace ddp::launcher {

// Tells the foreground process that the job is running; further calls do nothing.
using ReportStart = std::function<void()>;

// Runs job() in a child that outlives this process: in its own session, which no terminal closes,
// without stdin, with its output in the file `folder`/ddp-launch-PID.log, or a new name like it if
// that exists. Prints pid and file to stdout as soon as job() reports its start, or when that takes
// long; returns 0 at the start. If job() ends before that, prints its output to stderr, removes the
// file unless it has been printed, and returns its exit code; SIGINT and SIGTERM are passed on to
// it meanwhile. In the child, returns what job() returns. Call it before there is a thread or a
// SignalReader.
[[nodiscard]] int run_detached(const std::string& folder,
                               const std::function<int(const ReportStart&)>& job);

}  // namespace ddp::launcher
