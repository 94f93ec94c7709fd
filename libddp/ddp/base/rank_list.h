// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace ddp {

// "rank 3", "ranks 2, 3", or "ranks 0-3, 8", for messages. The ranks ascend.
[[nodiscard]] std::string rank_list(std::span<const int> ranks);
// "0-3, 8": at most sixteen numbers and ranges, then how many numbers there are besides.
[[nodiscard]] std::string number_list(std::span<const int> numbers);

}  // namespace ddp
