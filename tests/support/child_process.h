// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/socket.h"
#include "ddp/base/time.h"

namespace ddp::test {

// A program run by a test, its stdin, stdout and stderr on pipes. Every wait has a deadline and
// throws TimeoutError with the output so far; the destructor kills what still runs.
class ChildProcess {
 public:
  struct Options {
    std::vector<std::pair<std::string, std::string>> environment{};  // on top of ours
    std::vector<int> ignored_signals{};
    std::string stdout_path{};  // a file in place of the pipe
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
  // False when nothing more can come.
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

// Waits until no process with this pid lives (a zombie does not); false if the time is up.
[[nodiscard]] bool wait_until_gone(pid_t pid, Timeout timeout);

[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);
// Empty if there is none.
[[nodiscard]] std::string last_line(const std::string& text);

}  // namespace ddp::test
