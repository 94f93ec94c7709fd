// SPDX-License-Identifier: MIT
#include "ddp/data/image_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "ddp/base/error.h"
#include "ddp/base/system/no_write_signals.h"
#include "ddp/base/system/regular_file.h"
#include "ddp/data/image_codecs.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using image_internal::Bytes;

constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();
// Bytes that are read to find the size: a PNG's and most JPEGs' are in the first part; in a
// camera's JPEG a small preview comes before it.
constexpr std::size_t kUsualHeader = 1U << 12;
constexpr std::size_t kCameraHeader = 1U << 16;
constexpr std::array<std::uint8_t, 3> kJpegStart = {0xff, 0xd8, 0xff};
constexpr std::array<std::uint8_t, 8> kPngStart = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

bool starts_with(Bytes file, Bytes start) {
  return file.size() >= start.size() && std::equal(start.begin(), start.end(), file.begin());
}

std::string beginning_of(Bytes file) {
  std::string text;
  for (const std::uint8_t byte : file.first(std::min<std::size_t>(file.size(), 4))) {
    text += fmt::format("{:02x} ", byte);
  }
  return text.empty() ? "is empty" : "begins with " + text + "and is neither JPEG nor PNG";
}

// The file's first bytes, at most `at_most`; fewer than its size if it is truncated meanwhile.
std::vector<std::uint8_t> contents_of(const fs::path& path, std::size_t at_most) try {
  RegularFile file(path);
  std::vector<std::uint8_t> bytes(std::min<std::size_t>(file.size(), at_most));
  bytes.resize(file.read(bytes.data(), bytes.size()));
  return bytes;
} catch (const std::runtime_error& error) {
  throw FileError("[image_file] " + path.string() + ": " + error.what());
}

// Calls one of the two codecs with the bytes; every failure becomes a FileError with the file's
// name.
template <class Jpeg, class Png>
auto with_codec(const fs::path& path, Bytes bytes, Jpeg jpeg, Png png) {
  try {
    if (starts_with(bytes, kJpegStart)) return jpeg(bytes);
    if (starts_with(bytes, kPngStart)) return png(bytes);
    throw std::runtime_error(beginning_of(bytes));
  } catch (const std::runtime_error& error) {
    throw FileError("[image_file] " + path.string() + ": " + error.what());
  }
}

std::string encoded(const fs::path& path, const Image& image) {
  try {
    return image_internal::encode_png(image);
  } catch (const std::runtime_error& error) {
    throw FileError("[image_file] " + path.string() + ": " + error.what());
  }
}

void check_channels(std::int64_t channels) {
  if (channels == 1 || channels == 3) return;
  throw std::invalid_argument(fmt::format(
      "[image_file] images of {} channels are not supported, only of 1 or 3", channels));
}

// Removes what a failed write has left, but no device or pipe, and no link to it.
void remove_part(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = fs::canonical(path, ignored);
  if (fs::is_regular_file(file, ignored)) fs::remove(file, ignored);
}

}  // namespace

void image_internal::check_size(const ImageSize& size) {
  if (size.height <= kMaxPixels / std::max<std::int64_t>(size.width, 1)) return;
  throw std::runtime_error(
      fmt::format("says that it has {} pixels, more than 2^28 altogether", to_string(size)));
}

bool image_files_are_compiled_in() { return true; }

Image read_image(const fs::path& path, std::int64_t channels) {
  check_channels(channels);
  return with_codec(
      path, contents_of(path, kWhole),
      [=](Bytes file) { return image_internal::decode_jpeg(file, channels); },
      [=](Bytes file) { return image_internal::decode_png(file, channels); });
}

ImageSize read_image_size(const fs::path& path) {
  const auto size_in = [&path](Bytes bytes) {
    return with_codec(path, bytes, image_internal::jpeg_size, image_internal::png_size);
  };
  for (const std::size_t header : {kUsualHeader, kCameraHeader}) {
    const std::vector<std::uint8_t> bytes = contents_of(path, header);
    try {
      return size_in(bytes);
    } catch (const FileError&) {
      const bool may_follow = starts_with(bytes, kJpegStart) && bytes.size() == header;
      if (!may_follow) throw;
    }
  }
  return size_in(contents_of(path, kWhole));
}

void write_png(const fs::path& path, const Image& image) {
  check_channels(image.channels);
  const auto [height, width] = image.size;
  const auto bytes_of_pixels = static_cast<std::int64_t>(image.pixels.size());
  if (height < 1 || width < 1 || height > bytes_of_pixels || width > bytes_of_pixels / height ||
      bytes_of_pixels != height * width * image.channels) {
    throw std::invalid_argument(fmt::format("[image_file] {} bytes of pixels for {} of {} channels",
                                            image.pixels.size(), to_string(image.size),
                                            image.channels));
  }
  const std::string bytes = encoded(path, image);
  const NoWriteSignals guard;
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  const bool is_open = file.is_open();
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    const std::string reason = error_text(errno);
    if (is_open) remove_part(path);
    throw FileError("[image_file] " + path.string() + ": cannot be written: " + reason);
  }
}

}  // namespace ddp
