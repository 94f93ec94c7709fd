// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace ddp {

// Parses the header of a file, a JSON object. Throws FileError for what is not JSON, and also for
// what nlohmann's parser accepts: two equal keys in one object, a zero byte, and more than
// `max_depth` objects and arrays inside each other.
[[nodiscard]] nlohmann::json parse_strict_json(std::string_view text, std::size_t max_depth);

}  // namespace ddp
