// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "ddp/base/file_descriptor.h"
#include "support/files.h"

namespace ddp::test {

// While this object exists, the process's stderr, including log lines, goes to a file.
class StderrCapture {
 public:
  StderrCapture() : stderr_(::dup(STDERR_FILENO)) {
    write_bytes(file_, "");
    const FileDescriptor file(::open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    ::dup2(file.get(), STDERR_FILENO);
  }
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;
  ~StderrCapture() { ::dup2(stderr_.get(), STDERR_FILENO); }

  [[nodiscard]] std::string text() const { return bytes_of(file_); }

 private:
  TemporaryDirectory directory_;
  std::string file_ = directory_ / "stderr";
  FileDescriptor stderr_;
};

}  // namespace ddp::test
