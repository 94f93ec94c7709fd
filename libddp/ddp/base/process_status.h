// SPDX-License-Identifier: MIT
//
// What the kernel says of processes: how they are, and how they ended.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace ddp {

// "SIGKILL".
[[nodiscard]] std::string signal_name(int signal_number);

// Of a wait status, as waitpid(2) gives it: "exited with code 7", "was killed by SIGSEGV (core
// dumped)".
[[nodiscard]] std::string describe_status(int status);

// The exit code, or 128 + the signal, as a shell has it.
[[nodiscard]] int exit_code_of(int status);

struct ProcessStat {
  pid_t pid = 0;
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  unsigned flags = 0;  // PF_* of the kernel

  [[nodiscard]] bool is_zombie() const { return state == 'Z' || state == 'X'; }
  // By a signal or a debugger.
  [[nodiscard]] bool is_stopped() const { return state == 'T' || state == 't'; }

  // From the first moment of its death on: before its sockets are closed, so before any peer can
  // notice and die of it.
  [[nodiscard]] bool is_exiting() const;
};

// Parses /proc/PID/stat; see proc(5).
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

// Nothing if there is no such process, or no /proc.
[[nodiscard]] std::optional<ProcessStat> read_process(pid_t pid);

// For a child between fork and exec, or its end: the kernel kills it when the thread that forked it
// ends. False if that cannot be had, or `parent` is no more. Async-signal-safe.
[[nodiscard]] bool die_with(pid_t parent);

}  // namespace ddp
