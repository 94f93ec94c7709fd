// SPDX-License-Identifier: MIT
//
// Stands in for gzip_file.cpp in a build without zlib.
#include "ddp/base/error.h"
#include "ddp/data/gzip_file.h"

namespace ddp {

bool gzip_is_compiled_in() { return false; }

std::unique_ptr<InputFile> unpack_gzip(const std::filesystem::path& path,
                                       std::unique_ptr<InputFile>) {
  throw EnvironmentError("[input_file] " + path.string() +
                         ": this build reads no gzipped files: gunzip it, or install zlib "
                         "(apt-get install zlib1g-dev) and build with -DDDP_ZLIB=ON");
}

}  // namespace ddp
