// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>

#include "launcher/failure.h"
#include "launcher/memory_watch.h"

namespace ddp::launcher {

// Finds out why workers have ended. Made before they are started.
class PostMortem {
 public:
  PostMortem();

  // Call it when the process has just been reaped, while its surroundings are as they were;
  // `error_file` is where it may have left a record.
  [[nodiscard]] Ending examine(int rank, pid_t pid, int status, const rusage& usage,
                               const std::string& error_file) const;

 private:
  MemorySource memory_;
  MemoryState memory_before_;
};

}  // namespace ddp::launcher
