// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/time.h"

namespace ddp::test {

// A program that is the session leader of a terminal (a pty), like a login shell. Its children
// report to the test on descriptor 3 and receive answers on descriptor 4, which stay open whatever
// happens to the terminal. Every wait has a deadline; the destructor kills the program.
class Terminal {
 public:
  // argv[0] is looked up on PATH.
  explicit Terminal(const std::vector<std::string>& argv);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys);
  void close() { master_.reset(); }

  // The exit code, or 128 + the signal.
  int wait(Timeout timeout);

  // Waits for this report; throws if another one comes, or none.
  void read_report(const std::string& expected);
  void answer(const std::string& text);
  // Waits until no process is left that could report; throws if that takes too long.
  void check_report_ends();

 private:
  pid_t pid_ = 0;
  FileDescriptor master_;
  FileDescriptor report_;
  FileDescriptor answer_;
};

}  // namespace ddp::test
