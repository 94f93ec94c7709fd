// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ddp {

// "rank 3", "ranks 2, 3", or "ranks 0-3, 8", for messages. The ranks ascend.
[[nodiscard]] std::string rank_list(std::span<const int> ranks);
// "0-3, 8": at most sixteen numbers and ranges, then how many numbers there are besides.
[[nodiscard]] std::string number_list(std::span<const int> numbers);
// "1 rank", "2 ranks".
[[nodiscard]] inline std::string counted(std::size_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

}  // namespace ddp
