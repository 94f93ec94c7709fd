// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "launcher/output/console.h"

namespace ddp::launcher {

// Where the workers of one attempt on this node have their files, laid out like torchrun's:
//   PATH/<local rank>/{stdout.log,stderr.log,error.json,crash.txt,events.txt}
struct AttemptFolder {
  std::string path = {};  // empty: no folder, and no file has a path

  [[nodiscard]] std::string rank_folder(int local_rank) const;
  [[nodiscard]] std::string log_file(int local_rank, Channel channel) const;
  [[nodiscard]] std::string error_file(int local_rank) const;
  [[nodiscard]] std::string crash_file(int local_rank) const;
  [[nodiscard]] std::string events_file(int local_rank) const;
};

}  // namespace ddp::launcher
