// SPDX-License-Identifier: MIT
//
// Reads JPEG and PNG files, told apart by their first bytes. In a build without libjpeg and libpng
// every call throws an EnvironmentError that says what to install.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ddp/data/image_view.h"

namespace ddp {

// 8-bit pixels, rows from the top, the channels of a pixel next to each other.
struct Image {
  ImageSize size = {};
  std::int64_t channels = 0;  // 1 (grey) or 3 (red, green, blue)
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] ImageView view() const {
    return {.pixels = pixels.data(),
            .size = size,
            .channel_stride = 1,
            .row_stride = size.width * channels,
            .column_stride = channels};
  }
};

[[nodiscard]] bool image_files_are_compiled_in();

// Decodes a file to `channels` channels: 1 or 3, else std::invalid_argument. Colour becomes grey by
// ITU-R 601-2 luma, transparency is dropped, 16 bits become 8. As in Pillow, an orientation that
// EXIF data ask for is not applied.
//
// Throws FileError that names the file and the reason: it cannot be read, is not a JPEG or PNG, is
// a JPEG in CMYK, ends early or is damaged (also where a viewer would only show grey), or has more
// than 2^28 pixels.
[[nodiscard]] Image read_image(const std::filesystem::path& path, std::int64_t channels);

// Reads only the beginning of the file. Throws as read_image.
[[nodiscard]] ImageSize read_image_size(const std::filesystem::path& path);

// Writes a PNG. Throws FileError that names the file and the reason, and leaves no part of a file
// (a file that cannot be opened for writing stays as it is); std::invalid_argument if the pixels do
// not fit size and channels, or there are none.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace ddp
