// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace ddp {

// The process that made this object. A fork inherits a copy, which still stands for the parent.
class HomeProcess {
 public:
  HomeProcess();

  // Whether the caller is that process and not a fork of it. This is a load where ::getpid() would
  // be a system call, and notices every fork(), but not a bare clone() or _Fork().
  [[nodiscard]] bool is_here() const { return forks_ == forks.load(std::memory_order_relaxed); }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  static inline std::atomic<std::uint32_t> forks = 0;  // between the first process and this one

  pid_t pid_;
  std::uint32_t forks_;
};

}  // namespace ddp
