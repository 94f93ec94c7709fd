// SPDX-License-Identifier: MIT
//
// Where each output of each rank goes.
#pragma once

#include "launcher/options/options.h"
#include "launcher/output/console.h"

namespace ddp::launcher {

struct Route {
  bool to_console = false;
  bool to_file = false;
};

// The same as in torchrun, with two differences. With --log_dir every stream goes into a file, even
// if neither --redirects nor --tee names it. torchrun shows the stdout of all ranks; here --show
// decides, and its default gives way to --local_ranks_filter, which names the ranks whose two
// streams are shown.
[[nodiscard]] Route route(const LogOptions& options, int rank, int local_rank, Channel channel);

// True if any stream of any rank goes into a file.
[[nodiscard]] bool has_files(const LogOptions& options);

}  // namespace ddp::launcher
