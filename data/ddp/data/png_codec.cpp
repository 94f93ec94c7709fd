// SPDX-License-Identifier: MIT
//
// libpng's low-level interface (its manual); the simplified one would convert by gamma, which no
// data loader does.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string_view>

#include "ddp/data/image_codecs.h"
#include "ddp/data/longjmp_guard.h"

namespace ddp::image_internal {
namespace {

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  auto* guard = static_cast<LongjmpGuard*>(png_get_error_ptr(png));
  std::snprintf(guard->message.data(), guard->message.size(), "%s", message);
  std::longjmp(guard->jump, 1);
}

void ignore(png_structp, png_const_charp) {}

constexpr const char* kEndsEarly = "the file ends early";

// A reader and its error handler. Not movable, since libpng keeps pointers into it.
class Reader {
 public:
  explicit Reader(Bytes file) : rest_(file) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  // Not in the constructor, since after a failure here the reader must be destroyed.
  ImageSize read_header() {
    run_guarded(guard_, [&] {
      png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &guard_, fail, ignore);
      if (png_ != nullptr) info_ = png_create_info_struct(png_);
    });
    if (info_ == nullptr) throw std::bad_alloc();
    run_guarded(guard_, [&] {
      png_set_read_fn(png_, &rest_, read);
      // Skips texts, profiles and the like. libpng would allocate what a text says to be long.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_read_info(png_, info_);
    });
    const ImageSize size{png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
    check_size(size);
    return size;
  }

  // Converts to grey or RGB with 8 bits each, whatever the file has. Returns the number of
  // channels.
  [[nodiscard]] std::int64_t normalize() {
    run_guarded(guard_, [&] {
      png_set_expand(png_);  // palettes and 1, 2 or 4 bits
      png_set_scale_16(png_);
      png_set_strip_alpha(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    return png_get_channels(png_, info_);
  }

  void read_pixels(std::span<png_bytep> rows) {
    run_guarded(guard_, [&] {
      png_read_image(png_, rows.data());
      png_read_end(png_, nullptr);
    });
  }

 private:
  static void read(png_structp png, png_bytep out, std::size_t size) {
    auto& rest = *static_cast<Bytes*>(png_get_io_ptr(png));
    if (rest.size() < size) png_error(png, kEndsEarly);
    std::copy_n(rest.begin(), size, out);
    rest = rest.subspan(size);
  }

  LongjmpGuard guard_;
  Bytes rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

class Writer {
 public:
  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { png_destroy_write_struct(&png_, &info_); }

  void write(const ImageSize& size, int color_type, std::span<png_bytep> rows, std::string& out) {
    run_guarded(guard_, [&] {
      png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &guard_, fail, ignore);
      if (png_ != nullptr) info_ = png_create_info_struct(png_);
    });
    if (info_ == nullptr) throw std::bad_alloc();
    run_guarded(guard_, [&] {
      png_set_write_fn(png_, &out, append, nullptr);
      png_set_IHDR(png_, info_, static_cast<png_uint_32>(size.width),
                   static_cast<png_uint_32>(size.height), 8, color_type, PNG_INTERLACE_NONE,
                   PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
      png_write_info(png_, info_);
      png_write_image(png_, rows.data());
      png_write_end(png_, nullptr);
    });
  }

 private:
  // No exception may propagate through libpng's frames.
  static void append(png_structp png, png_bytep bytes, std::size_t size) {
    bool is_written = false;
    try {
      auto& out = *static_cast<std::string*>(png_get_io_ptr(png));
      out.append(reinterpret_cast<const char*>(bytes), size);
      is_written = true;
    } catch (const std::exception&) {
    }
    if (!is_written) png_error(png, "out of memory");
  }

  LongjmpGuard guard_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

std::vector<png_bytep> rows_of(const Image& image) {
  std::vector<png_bytep> rows;
  for (std::int64_t row = 0; row < image.size.height; ++row) {
    rows.push_back(
        const_cast<png_bytep>(image.pixels.data() + row * image.size.width * image.channels));
  }
  return rows;
}

Image grey_as_color(const Image& grey) {
  Image color{.size = grey.size, .channels = 3, .pixels = {}};
  color.pixels.reserve(3 * grey.pixels.size());
  for (const std::uint8_t pixel : grey.pixels) color.pixels.insert(color.pixels.end(), 3, pixel);
  return color;
}

// ITU-R 601-2 luma in 16-bit fixed point, as Pillow's convert("L").
Image color_as_grey(const Image& color) {
  Image grey{.size = color.size, .channels = 1, .pixels = {}};
  grey.pixels.reserve(color.pixels.size() / 3);
  for (std::size_t i = 0; i + 2 < color.pixels.size(); i += 3) {
    const std::uint8_t* pixel = color.pixels.data() + i;
    const std::uint32_t luma = 19595U * pixel[0] + 38470U * pixel[1] + 7471U * pixel[2];
    grey.pixels.push_back(static_cast<std::uint8_t>((luma + 0x8000U) >> 16));
  }
  return grey;
}

}  // namespace

// A PNG begins with its signature and the chunk IHDR: its length (4 bytes), its name (4), width and
// height. libpng would read everything before the pixels.
ImageSize png_size(Bytes file) {
  constexpr std::string_view kName = "IHDR";
  constexpr std::size_t kNameAt = 12;
  if (file.size() < kNameAt + 12) throw std::runtime_error(kEndsEarly);
  if (!std::equal(kName.begin(), kName.end(), file.begin() + kNameAt)) {
    throw std::runtime_error("does not begin with its header");
  }
  const std::uint8_t* width = file.data() + kNameAt + kName.size();
  const ImageSize size{png_get_uint_32(width + 4), png_get_uint_32(width)};
  if (size.height == 0 || size.width == 0) {
    throw std::runtime_error("says that it has " + to_string(size) + " pixels");
  }
  check_size(size);
  return size;
}

Image decode_png(Bytes file, std::int64_t channels) {
  Reader png(file);
  Image image{.size = png.read_header(), .channels = png.normalize(), .pixels = {}};
  image.pixels.resize(
      static_cast<std::size_t>(image.size.height * image.size.width * image.channels));
  std::vector<png_bytep> rows = rows_of(image);
  png.read_pixels(rows);
  if (image.channels == channels) return image;
  return channels == 1 ? color_as_grey(image) : grey_as_color(image);
}

std::string encode_png(const Image& image) {
  Writer png;
  std::string out;
  std::vector<png_bytep> rows = rows_of(image);
  png.write(image.size, image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, rows, out);
  return out;
}

}  // namespace ddp::image_internal
