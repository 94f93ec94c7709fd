// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace ddp::launcher {

// TMPDIR, or `otherwise` if that is not set. Absolute, since workers may change their folder.
[[nodiscard]] std::string temporary_parent(const char* otherwise);

// Makes PARENT/PREFIX and kUniqueSuffix, readable only by this user. Returns "" with the reason in
// errno if it cannot be made.
[[nodiscard]] std::string make_temporary_folder(const std::string& parent, std::string_view prefix);
inline constexpr std::string_view kUniqueSuffix = "XXXXXX";  // mkdtemp replaces it

}  // namespace ddp::launcher
