// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

enum class Fate : std::uint8_t { kUnknown, kLeft, kDied };

// "was lost", "left the group", "died".
[[nodiscard]] const char* to_string(Fate fate);

struct LostRank {
  int rank = 0;  // in the group
  Fate fate = Fate::kUnknown;
  std::string name = {};  // "rank 1 (node7, pid 123, cpu)", or what is known of that
};

}  // namespace ddp
