// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>

#include <string>

#include "ddp/base/time.h"
#include "launcher/verdict/failure.h"
#include "launcher/verdict/memory_watch.h"

namespace ddp::launcher {

// Finds out why workers have ended. Construct it before the workers start.
class PostMortem {
 public:
  explicit PostMortem(MemorySource source = MemorySource::of_this_process());

  // What the kernel has killed for lack of memory counts as the reason of an end only if it was
  // after the last look but one, so look now and then.
  static constexpr Timeout kBetweenLooks = std::chrono::seconds(10);
  void look();

  // Completes an ending of which rank, pid and status are known. Call it right after the worker was
  // reaped, while its surroundings are unchanged. `error_file` is where it may have left a record.
  [[nodiscard]] Ending examine(Ending ending, const rusage& usage,
                               const std::string& error_file) const;

 private:
  MemorySource memory_;
  MemoryState look_before_last_;
  MemoryState last_look_;
};

}  // namespace ddp::launcher
