// SPDX-License-Identifier: MIT
//
// libjpeg-turbo's classic interface (its libjpeg.txt).
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it, and jerror.h needs jpeglib.h

#include <jpeglib.h>

#include <jerror.h>

#include <stdexcept>

#include "ddp/data/image_codecs.h"
#include "ddp/data/longjmp_guard.h"

namespace ddp::image_internal {
namespace {

// A decompressor and its error handler. Not movable, since libjpeg keeps pointers into it.
class Decompressor {
 public:
  Decompressor() {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr jpeg) { fail(jpeg); };
    errors_.emit_message = [](j_common_ptr jpeg, int level) {
      if (level < 0 && !is_harmless(jpeg->err->msg_code)) fail(jpeg);
    };
    jpeg_.client_data = &guard_;
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor() { jpeg_destroy_decompress(&jpeg_); }

  // Not in the constructor, since after a failure here the decompressor must be destroyed.
  ImageSize read_header(Bytes file) {
    run_guarded(guard_, [&] {
      jpeg_create_decompress(&jpeg_);
      jpeg_mem_src(&jpeg_, file.data(), file.size());
      jpeg_read_header(&jpeg_, TRUE);
    });
    if (jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK) {
      throw std::runtime_error("is in CMYK, as for print, which is not read: convert it to RGB");
    }
    const ImageSize size{jpeg_.image_height, jpeg_.image_width};
    check_size(size);
    return size;
  }

  void read_pixels(Image& image) {
    const auto row_bytes = static_cast<std::size_t>(image.size.width * image.channels);
    std::uint8_t* const pixels = image.pixels.data();
    run_guarded(guard_, [&] {
      jpeg_.out_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
      jpeg_start_decompress(&jpeg_);
      while (jpeg_.output_scanline < jpeg_.output_height) {
        std::uint8_t* row = pixels + jpeg_.output_scanline * row_bytes;
        jpeg_read_scanlines(&jpeg_, &row, 1);
      }
      jpeg_finish_decompress(&jpeg_);
    });
  }

 private:
  [[noreturn]] static void fail(j_common_ptr jpeg) {
    auto* guard = static_cast<LongjmpGuard*>(jpeg->client_data);
    static_assert(sizeof(guard->message) >= JMSG_LENGTH_MAX);
    jpeg->err->format_message(jpeg, guard->message.data());
    std::longjmp(guard->jump, 1);
  }

  // After most warnings of libjpeg, the file is damaged and the following pixels are guessed. These
  // warnings are the exceptions.
  static bool is_harmless(int code) {
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM ||
           code == JWRN_BOGUS_ICC || code == JWRN_NOT_SEQUENTIAL;
  }

  LongjmpGuard guard_;
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct jpeg_{};  // zeroed: may be destroyed before it is created
};

}  // namespace

ImageSize jpeg_size(Bytes file) { return Decompressor().read_header(file); }

Image decode_jpeg(Bytes file, std::int64_t channels) {
  Decompressor jpeg;
  Image image{.size = jpeg.read_header(file), .channels = channels, .pixels = {}};
  image.pixels.resize(static_cast<std::size_t>(image.size.height * image.size.width * channels));
  jpeg.read_pixels(image);
  return image;
}

}  // namespace ddp::image_internal
