// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

namespace ddp::launcher {

// Tells the process in the foreground that the job runs; further calls do nothing.
using ReportStart = std::function<void()>;

// Runs job() in a child that goes on without us: in a session of its own, which no terminal closes,
// without stdin, its output in the file `folder`/ddp-launch-PID.log. Returns 0, having printed pid
// and file to stdout, as soon as job() reports its start. If it ends before that, prints to stderr
// what it has said, removes the file and returns its exit code; SIGINT and SIGTERM are passed on to
// it meanwhile. In the child, returns what job() returns. Call it before there is a thread or a
// SignalReader.
[[nodiscard]] int run_detached(const std::string& folder,
                               const std::function<int(const ReportStart&)>& job);

}  // namespace ddp::launcher
