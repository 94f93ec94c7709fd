// SPDX-License-Identifier: MIT
//
// Writes image files of kinds that the library reads but does not write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddp/data/image_file.h"

namespace ddp::test {

// An image in which neighbouring pixels differ a little and distant ones a lot.
Image gradient(ImageSize size, std::int64_t channels);

enum class JpegKind : std::uint8_t { kBaseline, kProgressive };

// The bytes of a JPEG file of nearly the best quality; of a CMYK file if there are four channels.
std::string jpeg_of(const Image& image, JpegKind kind = JpegKind::kBaseline);

// The fields of PNG's IHDR.
struct PngKind {
  int color_type = 0;
  int bit_depth = 8;
  bool is_interlaced = false;
};

// The bytes of a PNG file with these rows. In a file with a palette, colour i is (i, 2 i, 3 i).
std::string png_of(const PngKind& kind, ImageSize size,
                   std::vector<std::vector<std::uint8_t>> rows);

}  // namespace ddp::test
