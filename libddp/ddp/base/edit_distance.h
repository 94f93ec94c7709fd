// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string_view>

namespace ddp {

// The Levenshtein distance, for guessing which name a misspelt one means.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace ddp
