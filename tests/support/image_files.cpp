// SPDX-License-Identifier: MIT
#include "support/image_files.h"

#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>
#include <png.h>

namespace ddp::test {

Image gradient(ImageSize size, std::int64_t channels) {
  Image image{.size = size, .channels = channels, .pixels = {}};
  for (std::int64_t row = 0; row < size.height; ++row) {
    for (std::int64_t column = 0; column < size.width; ++column) {
      for (std::int64_t c = 0; c < channels; ++c) {
        image.pixels.push_back(
            static_cast<std::uint8_t>(160 * row / size.height + 50 * column / size.width + 20 * c));
      }
    }
  }
  return image;
}

std::string jpeg_of(const Image& image, JpegKind kind) {
  jpeg_error_mgr errors{};
  jpeg_compress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = static_cast<JDIMENSION>(image.size.width);
  jpeg.image_height = static_cast<JDIMENSION>(image.size.height);
  jpeg.input_components = static_cast<int>(image.channels);
  jpeg.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                        : image.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 98, TRUE);
  if (kind == JpegKind::kProgressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row = const_cast<JSAMPROW>(image.pixels.data()) +
                static_cast<std::int64_t>(jpeg.next_scanline) * image.size.width * image.channels;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string result(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return result;
}

std::string png_of(const PngKind& kind, ImageSize size,
                   std::vector<std::vector<std::uint8_t>> rows) {
  std::string result;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &result,
      [](png_structp self, png_bytep bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(self))
            ->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(size.width),
               static_cast<png_uint_32>(size.height), kind.bit_depth, kind.color_type,
               kind.is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (unsigned i = 0; i < 1U << kind.bit_depth && kind.bit_depth <= 8; ++i) {
    palette.push_back(
        {static_cast<png_byte>(i), static_cast<png_byte>(2 * i), static_cast<png_byte>(3 * i)});
  }
  if (kind.color_type == PNG_COLOR_TYPE_PALETTE) {
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  }
  std::vector<png_bytep> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return result;
}

}  // namespace ddp::test
