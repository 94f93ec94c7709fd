// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace ddp {

// "rank 3", or "ranks 0, 2, 5", for messages: at most sixteen ranks, then how many more there are.
[[nodiscard]] std::string rank_list(std::span<const int> ranks);

}  // namespace ddp
