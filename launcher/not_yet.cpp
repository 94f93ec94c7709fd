// SPDX-License-Identifier: MIT
#include "launcher/not_yet.h"

#include <fmt/core.h>

#include <utility>

#include "launcher/launch_error.h"

namespace ddp::launcher {

void refuse_unbuilt(const Options& options) {
  using Binding = PlacementOptions::Binding;
  // A line goes when what it asks for is built.
  const std::pair<const char*, bool> asked[] = {
      {"--gpus", options.placement.gpus.has_value()},
      {"--bind", options.placement.binding != Binding::kNone},
  };
  for (const auto& [flag, is_asked] : asked) {
    if (is_asked) throw LaunchError(fmt::format("{}: not yet", flag));
  }
}

}  // namespace ddp::launcher
