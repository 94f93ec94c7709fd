// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>

namespace ddp::test {

// Makes every write beyond this file size fail, as on a full disk; it also raises SIGXFSZ.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t size_bytes) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{size_bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &old_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
};

}  // namespace ddp::test
