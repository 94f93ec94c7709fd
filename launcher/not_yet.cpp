// SPDX-License-Identifier: MIT
#include "launcher/not_yet.h"

#include <fmt/core.h>

#include <utility>

#include "launcher/launch_error.h"

namespace ddp::launcher {

void refuse_unbuilt(const Options& options) {
  using Binding = PlacementOptions::Binding;
  const LogOptions& logs = options.logs;
  const auto keeps = [](const StreamSelection& streams) {
    return streams.everybody != 0 || !streams.by_local_rank.empty();
  };
  // A line goes when what it asks for is built.
  const std::pair<const char*, bool> asked[] = {
      {"--log_dir", logs.directory.has_value()},
      {"--redirects", keeps(logs.redirects)},
      {"--tee", keeps(logs.tee)},
      {"--local_ranks_filter", logs.local_ranks_filter.has_value()},
      {"--gpus", options.placement.gpus.has_value()},
      {"--bind", options.placement.binding != Binding::kNone},
  };
  for (const auto& [flag, is_asked] : asked) {
    if (is_asked) throw LaunchError(fmt::format("{}: not yet", flag));
  }
}

}  // namespace ddp::launcher
