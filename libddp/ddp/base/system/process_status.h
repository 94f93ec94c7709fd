// SPDX-License-Identifier: MIT
//
// What the kernel says about processes: their states, and how they ended.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp {

// "SIGKILL".
[[nodiscard]] std::string signal_name(int signal_number);

// Describes a wait status of waitpid(2): "exited with code 7", "was killed by SIGSEGV (core
// dumped)". Of SIGUSR1 and SIGUSR2, which ask a process for something, it says that there was no
// handler.
[[nodiscard]] std::string describe_status(int status);

// Waits for the end of a child. Its wait status; nothing, with errno, if there is no such child: it
// was waited for, or whoever started this process left SIGCHLD ignored (see ReapableChildren).
[[nodiscard]] std::optional<int> wait_for_child(pid_t child);

// While it lives, SIGCHLD is not ignored, nor are children discarded (SA_NOCLDWAIT): otherwise the
// kernel would not tell how they end.
class ReapableChildren {
 public:
  ReapableChildren();
  ReapableChildren(const ReapableChildren&) = delete;
  ReapableChildren& operator=(const ReapableChildren&) = delete;
  ~ReapableChildren() { ::sigaction(SIGCHLD, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

// The exit code, or 128 + the signal, as in a shell.
[[nodiscard]] int exit_code_of(int status);

struct ProcessStat {
  pid_t pid = 0;
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  unsigned flags = 0;  // the kernel's PF_* flags
  int threads = 1;     // with those that have ended and are not waited for
  // In the kernel's ticks since the boot: with the pid it names a process for good.
  std::uint64_t start_time = 0;

  [[nodiscard]] bool is_zombie() const { return state == 'Z' || state == 'X'; }
  // True if a signal or a debugger stopped the process.
  [[nodiscard]] bool is_stopped() const { return state == 'T' || state == 't'; }

  // True from the first moment of its death, before its sockets are closed; so before any peer can
  // notice and fail because of it.
  [[nodiscard]] bool is_exiting() const;
};

// Parses /proc/PID/stat; see proc(5). State and flags are those of the main thread.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

// Returns nothing if there is no such process, or if its file in /proc cannot be read. If the main
// thread has ended alone (pthread_exit), state and flags are those of a thread that lives on.
[[nodiscard]] std::optional<ProcessStat> read_process(pid_t pid);

// "pid 4711 (python3 train.py)", with the beginning of a long command line.
[[nodiscard]] std::string describe_process(pid_t pid);

// For a child between fork and exec, or its whole life: the kernel sends it the signal when the
// thread that forked it ends. False if the kernel cannot do that, or if `parent` is already dead.
// Async-signal-safe.
[[nodiscard]] bool die_with(pid_t parent, int signal_number = SIGKILL);

}  // namespace ddp
