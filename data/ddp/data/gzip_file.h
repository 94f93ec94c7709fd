// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>

#include "ddp/data/input_file.h"

namespace ddp {

// The contents of the gzipped file `packed`, all its members one after the other; `path` is for
// messages. Throws EnvironmentError in a build without zlib.
[[nodiscard]] std::unique_ptr<InputFile> unpack_gzip(const std::filesystem::path& path,
                                                     std::unique_ptr<InputFile> packed);

}  // namespace ddp
