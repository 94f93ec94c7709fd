// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/time.h"

namespace ddp::test {

// A program that a test runs, with pipes as its stdin, stdout and stderr. Every wait has a deadline
// and throws TimeoutError with the output so far. The destructor kills the program if it still
// runs.
class ChildProcess {
 public:
  struct Options {
    std::vector<std::pair<std::string, std::string>> environment{};  // changes to ours
    std::vector<int> ignored_signals{};
    std::string stdout_path{};  // a file instead of the pipe
    bool close_stdout = false;
  };

  explicit ChildProcess(const std::vector<std::string>& argv) : ChildProcess(argv, Options()) {}
  ChildProcess(const std::vector<std::string>& argv, const Options& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Reads output until it satisfies `condition`.
  void wait_until(const std::function<bool(const ChildProcess&)>& condition,
                  Timeout timeout = kDefaultTimeout);
  // Reads until `text` has come on stdout or stderr.
  void wait_for_output(const std::string& text, Timeout timeout = kDefaultTimeout);

  // Reads to the end of the output and returns the exit code, or 128 + the signal.
  int wait(Timeout timeout = kDefaultTimeout);

  void write_stdin(const std::string& text);
  void send_signal(int signal_number);
  void close_stdout() { stdout_.reset(); }
  void close_output() {
    stdout_.reset();
    stderr_.reset();
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::string& out() const { return out_; }
  [[nodiscard]] const std::string& err() const { return err_; }

  static constexpr Timeout kDefaultTimeout{25000};

 private:
  // False if both pipes are closed.
  bool read_some(Deadline deadline);

  pid_t pid_ = 0;
  std::optional<int> exit_code_;
  FileDescriptor stdin_;
  FileDescriptor stdout_;
  FileDescriptor stderr_;
  FileDescriptor pidfd_;
  std::string out_;
  std::string err_;
};

// Waits until no process with this pid lives (a zombie does not count as living); false after the
// timeout.
[[nodiscard]] bool wait_until_gone(pid_t pid, Timeout timeout);

[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);
// The last line of `text`; empty if there is none.
[[nodiscard]] std::string last_line(const std::string& text);

}  // namespace ddp::test
