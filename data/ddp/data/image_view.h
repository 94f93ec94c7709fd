// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/buffer.h"

namespace ddp {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// "480 x 640", height first.
[[nodiscard]] std::string to_string(const ImageSize& size);

// A view of 8-bit pixels in any layout; strides are in bytes.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  ImageSize size = {};
  std::ptrdiff_t channel_stride = 0;
  std::ptrdiff_t row_stride = 0;
  std::ptrdiff_t column_stride = 1;
};

// The rectangle of an image that is shown, mirrored if `flipped`. Pixels outside the image are 0.
struct Window {
  std::int64_t top = 0;
  std::int64_t left = 0;
  ImageSize size = {};
  bool flipped = false;
};

// Maps a pixel's value to an element of the input; one table for each channel.
using PixelTable = std::array<double, 256>;

// An input is (pixel / 255 - mean) / stddev.
struct Normalization {
  double mean = 0;
  double stddev = 1;
};

// Throws std::invalid_argument unless means are finite, and standard deviations finite and above 0.
[[nodiscard]] std::vector<PixelTable> pixel_tables(std::span<const Normalization> channels);

// Writes the window as a float32 or float64 tensor of shape [tables.size(), height, width]. Throws
// std::invalid_argument if `out` has another type or count.
void write_pixels(const ImageView& image, const Window& window, std::span<const PixelTable> tables,
                  const Buffer& out);

}  // namespace ddp
