// SPDX-License-Identifier: MIT
#include "ddp/collectives/rank_list.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddp {

std::string rank_list(std::span<const int> ranks) {
  constexpr std::size_t kShown = 16;
  const auto shown = ranks.first(std::min(ranks.size(), kShown));
  std::string text = fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(shown, ", "));
  if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
  return text;
}

}  // namespace ddp
