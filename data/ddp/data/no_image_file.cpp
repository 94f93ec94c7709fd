// SPDX-License-Identifier: MIT
//
// Stands in for image_file.cpp and the codecs in a build without libjpeg and libpng.
#include "ddp/base/error.h"
#include "ddp/data/image_file.h"

namespace ddp {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path) {
  throw EnvironmentError("[image_file] " + path.string() +
                         ": this build reads and writes no image files: install libjpeg and libpng "
                         "(apt-get install libjpeg-dev libpng-dev) and build with -DDDP_IMAGES=ON");
}

}  // namespace

bool image_files_are_compiled_in() { return false; }

Image read_image(const std::filesystem::path& path, std::int64_t) { refuse(path); }

ImageSize read_image_size(const std::filesystem::path& path) { refuse(path); }

void write_png(const std::filesystem::path& path, const Image&) { refuse(path); }

}  // namespace ddp
