// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>

#include "ddp/base/error.h"
#include "ddp/data/idx.h"

namespace ddp::test {

// The error message of read_idx.
inline std::string idx_error(const std::filesystem::path& path, std::size_t dimensions = 1) {
  try {
    (void)read_idx(path, dimensions);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace ddp::test
