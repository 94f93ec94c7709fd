// SPDX-License-Identifier: MIT
#include "launcher/run/temporary_folder.h"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace ddp::launcher {

std::string temporary_parent(const char* otherwise) {
  const char* chosen = std::getenv("TMPDIR");
  if (chosen == nullptr || *chosen == '\0') return otherwise;
  std::error_code ignored;
  return std::filesystem::absolute(chosen, ignored).lexically_normal().string();
}

std::string make_temporary_folder(const std::string& parent, std::string_view prefix) {
  std::string path = fmt::format("{}/{}{}", parent, prefix, kUniqueSuffix);
  return ::mkdtemp(path.data()) == nullptr ? "" : path;
}

}  // namespace ddp::launcher
