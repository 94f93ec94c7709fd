// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ddp/engine/statistics/rank_step.h"

namespace ddp {

// Draws one step of all ranks, on one clock, as an SVG image: what each rank did, when its buckets
// were ready and reduced, and how long it then waited for the slowest rank and for exposed
// reductions. The image needs no scripts or external resources and is readable on light and dark
// pages. `caption` is plain text.
[[nodiscard]] std::string draw_step(std::span<const RankStep> ranks, std::string_view caption);

}  // namespace ddp
