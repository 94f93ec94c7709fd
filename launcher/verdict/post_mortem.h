// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>

#include <string>

#include "launcher/verdict/failure.h"
#include "launcher/verdict/memory_watch.h"

namespace ddp::launcher {

// Finds out why workers have ended. Construct it before the workers start.
class PostMortem {
 public:
  PostMortem();

  // Completes an ending of which rank, pid and status are known. Call it right after the worker was
  // reaped, while its surroundings are unchanged. `error_file` is where it may have left a record.
  [[nodiscard]] Ending examine(Ending ending, const rusage& usage,
                               const std::string& error_file) const;

 private:
  MemorySource memory_;
  MemoryState memory_before_;
};

}  // namespace ddp::launcher
