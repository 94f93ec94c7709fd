// SPDX-License-Identifier: MIT
//
// What stands between image_file.cpp and the libraries; not meant for others. Errors are
// std::runtime_error with the library's words, without the file's name.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ddp/data/image_file.h"

namespace ddp::image_internal {

using Bytes = std::span<const std::uint8_t>;

// No picture of a training set is larger; for a damaged header that says so, no memory is taken.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

// std::runtime_error if an image has more than kMaxPixels.
void check_size(const ImageSize& size);

[[nodiscard]] ImageSize jpeg_size(Bytes file);
[[nodiscard]] Image decode_jpeg(Bytes file, std::int64_t channels);

[[nodiscard]] ImageSize png_size(Bytes file);
[[nodiscard]] Image decode_png(Bytes file, std::int64_t channels);
[[nodiscard]] std::string encode_png(const Image& image);

}  // namespace ddp::image_internal
