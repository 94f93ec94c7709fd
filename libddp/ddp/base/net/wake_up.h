// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/file_descriptor.h"

namespace ddp {

// Wakes up a thread that polls: its descriptor is readable from wake() to acknowledge().
// Thread-safe.
class WakeUp {
 public:
  WakeUp();  // SystemError if no more files can be opened

  [[nodiscard]] int fd() const { return event_.get(); }
  void wake() const noexcept;  // async-signal-safe
  void acknowledge() const noexcept;

 private:
  FileDescriptor event_;
};

}  // namespace ddp
