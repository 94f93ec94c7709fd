// SPDX-License-Identifier: MIT
//
// Which output of which rank goes where.
#pragma once

#include "launcher/console.h"
#include "launcher/options.h"

namespace ddp::launcher {

struct Route {
  bool to_console = false;
  bool to_file = false;
};

// As torchrun has it, with two differences. With --log_dir every stream goes into a file, also one
// that neither --redirects nor --tee names. And where torchrun shows everybody's stdout, --show
// decides; its default gives way to --local_ranks_filter, which names whose both streams are shown.
[[nodiscard]] Route route(const LogOptions& options, int rank, int local_rank, Channel channel);

// Whether any stream of any rank goes into a file.
[[nodiscard]] bool has_files(const LogOptions& options);

}  // namespace ddp::launcher
