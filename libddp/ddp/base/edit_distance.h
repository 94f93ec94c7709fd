// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string_view>

namespace ddp {

// How many letters have to be inserted, deleted or replaced to make `b` of `a` (Levenshtein): which
// name a misspelt one may mean.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace ddp
