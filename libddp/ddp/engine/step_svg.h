// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ddp/engine/rank_step.h"

namespace ddp {

// One step of all ranks, on one clock, as an SVG image: what each did, when its buckets were ready
// and reduced, and for how long it then waited, for the slowest rank and for reductions that were
// exposed. Without scripts or outside resources; readable on light and dark pages. `caption` is
// plain text.
[[nodiscard]] std::string draw_step(std::span<const RankStep> ranks, std::string_view caption);

}  // namespace ddp
