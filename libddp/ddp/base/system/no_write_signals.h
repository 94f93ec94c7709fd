// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>

namespace ddp {

// While it lives, a write of this thread fails where it would otherwise end the process: to a pipe
// that nobody reads (SIGPIPE, EPIPE), or beyond `ulimit -f` (SIGXFSZ, EFBIG).
class [[nodiscard]] NoWriteSignals {
 public:
  NoWriteSignals();
  ~NoWriteSignals();
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

 private:
  sigset_t caught_;  // those of the two that were not pending before
  sigset_t previous_;
};

}  // namespace ddp
