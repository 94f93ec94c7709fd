// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "launcher/options/option_values.h"
#include "launcher/options/options.h"

namespace ddp::launcher {

// The values of flags, before they are combined into Options.
struct Draft {
  Options options;
  std::optional<WorkerRequest> workers;
  Address master;
  Address rendezvous;  // comes before `master`
  std::optional<int> node_count;
  bool standalone = false;
  bool module = false;
  bool no_python = false;
};

}  // namespace ddp::launcher
