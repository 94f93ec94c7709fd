// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

enum class Fate : std::uint8_t { kUnknown, kLeft, kDied };

[[nodiscard]] inline const char* to_string(Fate fate) {
  switch (fate) {
    case Fate::kLeft:
      return "left the group";
    case Fate::kDied:
      return "died";
    case Fate::kUnknown:
      break;
  }
  return "was lost";
}

struct LostRank {
  int rank = 0;  // in the group
  Fate fate = Fate::kUnknown;
  std::string name = {};  // "rank 1 (node7, pid 123, cpu)", or what is known of that
};

}  // namespace ddp
