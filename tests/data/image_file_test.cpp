// SPDX-License-Identifier: MIT
#include "ddp/data/image_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/data/image_codecs.h"
#include "support/files.h"
#include "support/image_files.h"
#include "support/in_child.h"
#include "support/run_ranks.h"

namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ddp::Image;
using ddp::ImageSize;
using ddp::read_image;
using ddp::image_internal::decode_jpeg;
using ddp::image_internal::decode_png;
using ddp::test::error_of;
using ddp::test::gradient;
using ddp::test::jpeg_of;
using ddp::test::JpegKind;
using ddp::test::png_of;
using ddp::test::PngKind;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;
using Pixels = std::vector<std::uint8_t>;

constexpr int kGrey = 0;
constexpr int kRgb = 2;
constexpr int kPalette = 3;
constexpr int kGreyAlpha = 4;
constexpr int kRgba = 6;

// A file that the tests write repeatedly.
class File {
 public:
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  [[nodiscard]] Image decoded(const std::string& bytes, std::int64_t channels) const {
    write_bytes(path_, bytes);
    return read_image(path_, channels);
  }

  // The error of reading these bytes, which must be a FileError that names the file; "" if there is
  // none.
  [[nodiscard]] std::string error(const std::string& bytes) const {
    write_bytes(path_, bytes);
    try {
      (void)read_image(path_, 3);
    } catch (const ddp::FileError& error) {
      CHECK_THAT(error.what(), StartsWith("[image_file] " + path_.string() + ": "));
      return error.what();
    }
    return "";
  }

 private:
  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "image";
};

// The error of decoding, for tests that would otherwise write thousands of files. Exceptions other
// than std::runtime_error are not caught.
std::string decoder_error(const std::string& bytes, bool is_png) {
  const Pixels file(bytes.begin(), bytes.end());
  try {
    (void)(is_png ? decode_png(file, 3) : decode_jpeg(file, 3));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

struct Coded {
  std::string bytes;
  bool is_png;
};

std::vector<Coded> small_images() {
  return {{jpeg_of(gradient({16, 24}, 3)), false},
          {jpeg_of(gradient({24, 40}, 1), JpegKind::kProgressive), false},
          {png_of({kGrey, 8, true}, {3, 2}, {{1, 2}, {3, 4}, {5, 6}}), true},
          {png_of({kPalette, 4}, {3, 2}, {{0x12}, {0x34}, {0x56}}), true}};
}

int largest_difference(const Pixels& a, const Pixels& b) {
  REQUIRE(a.size() == b.size());
  int largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// A PNG with a text of `size` bytes that says to have `announced` bytes. It follows the signature
// and IHDR. Its checksum is wrong, which readers ignore.
std::string with_text(const std::string& png, std::size_t size, std::size_t announced) {
  std::string length;
  for (const int shift : {24, 16, 8, 0}) length += static_cast<char>(announced >> shift);
  return png.substr(0, 33) + length + "tEXt" + std::string(size, 'x') + std::string(4, 0) +
         png.substr(33);
}

// Changes the size in a JPEG. It follows the marker SOF0 (two bytes), a length (two) and the
// precision (one).
std::string with_jpeg_size(std::string bytes, char high, char low) {
  const std::size_t frame = bytes.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  bytes.replace(frame + 5, 4, {high, low, high, low});
  return bytes;
}

}  // namespace

TEST_CASE("a PNG that was written is read back, grey and in colour", "[data][image_file]") {
  const TemporaryDirectory directory;
  const auto path = directory / "image.png";
  for (const std::int64_t channels : {1, 3}) {
    for (const ImageSize size : {ImageSize{1, 1}, ImageSize{7, 13}, ImageSize{64, 3}}) {
      CAPTURE(channels, to_string(size));
      const Image image = gradient(size, channels);
      ddp::write_png(path, image);
      CHECK(ddp::read_image_size(path) == size);
      const Image back = read_image(path, channels);
      CHECK(back.size == size);
      CHECK(back.channels == channels);
      CHECK(back.pixels == image.pixels);
    }
  }
}

TEST_CASE("every kind of PNG becomes 8 bits, grey or colour", "[data][image_file]") {
  const File file;
  // 1 bit: 1 0 1; expanded to black and white
  CHECK(file.decoded(png_of({kGrey, 1}, {1, 3}, {{0xa0}}), 1).pixels == Pixels{255, 0, 255});
  CHECK(file.decoded(png_of({kGrey, 4}, {1, 2}, {{0x1f}}), 1).pixels == Pixels{17, 255});
  CHECK(file.decoded(png_of({kGrey, 16}, {1, 2}, {{0xff, 0xff, 0x12, 0x34}}), 1).pixels ==
        Pixels{255, 0x12});
  CHECK(file.decoded(png_of({kPalette, 8}, {1, 2}, {{1, 20}}), 3).pixels ==
        Pixels{1, 2, 3, 20, 40, 60});
  CHECK(file.decoded(png_of({kGreyAlpha, 8}, {1, 2}, {{9, 0, 8, 255}}), 1).pixels == Pixels{9, 8});
  CHECK(file.decoded(png_of({kRgba, 8}, {1, 1}, {{9, 8, 7, 0}}), 3).pixels == Pixels{9, 8, 7});
  CHECK(file.decoded(png_of({kGrey, 8}, {1, 2}, {{5, 6}}), 3).pixels == Pixels{5, 5, 5, 6, 6, 6});
  // 0.299 * 200 + 0.587 * 100 + 0.114 * 50 = 124.2
  CHECK(file.decoded(png_of({kRgb, 8}, {1, 2}, {{200, 100, 50, 255, 255, 255}}), 1).pixels ==
        Pixels{124, 255});

  std::vector<Pixels> rows;
  Pixels all;
  for (std::uint8_t row = 0; row < 11; ++row) {
    rows.push_back({row, static_cast<std::uint8_t>(row + 50), static_cast<std::uint8_t>(9 * row)});
    all.insert(all.end(), rows.back().begin(), rows.back().end());
  }
  CHECK(file.decoded(png_of({kGrey, 8, true}, {11, 3}, rows), 1).pixels == all);
}

TEST_CASE("a JPEG is decoded, grey and in colour, baseline and progressive", "[data][image_file]") {
  const File file;
  for (const JpegKind kind : {JpegKind::kBaseline, JpegKind::kProgressive}) {
    for (const std::int64_t channels : {1, 3}) {
      CAPTURE(static_cast<int>(kind), channels);
      const Image image = gradient({37, 50}, channels);
      const std::string bytes = jpeg_of(image, kind);
      const Image decoded = file.decoded(bytes, channels);
      CHECK(decoded.size == ImageSize{37, 50});
      CHECK(ddp::read_image_size(file.path()) == ImageSize{37, 50});
      CHECK(largest_difference(decoded.pixels, image.pixels) <= 8);
    }
  }
  const Image grey = gradient({8, 8}, 1);
  const Image color = file.decoded(jpeg_of(grey), 3);
  const Image back = file.decoded(jpeg_of(grey), 1);
  for (std::size_t i = 0; i < color.pixels.size(); ++i) {
    REQUIRE(color.pixels[i] == back.pixels[i / 3]);
  }
  CHECK(file.decoded(jpeg_of(gradient({8, 8}, 3)), 1).pixels.size() == 64);
}

TEST_CASE("a JPEG's size is found behind long metadata", "[data][image_file]") {
  const File file;
  const std::string bytes = jpeg_of(gradient({9, 5}, 3));
  // Comments (marker 0xfffe) of the maximum length after the file's first two bytes.
  const std::string comment = "\xff\xfe\xff\xff" + std::string(0xffff - 2, 'x');
  write_bytes(file.path(), bytes.substr(0, 2) + comment + comment + bytes.substr(2));
  CHECK(ddp::read_image_size(file.path()) == ImageSize{9, 5});
}

TEST_CASE("a PNG's size is found before long metadata", "[data][image_file]") {
  const File file;
  write_bytes(file.path(), with_text(png_of({kGrey, 8}, {1, 2}, {{5, 6}}), 70000, 70000));
  CHECK(ddp::read_image_size(file.path()) == ImageSize{1, 2});
  CHECK(read_image(file.path(), 1).pixels == Pixels{5, 6});
}

TEST_CASE("metadata that a PNG only announces takes no memory", "[data][image_file]") {
  const auto largest_use = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const File file;
  const auto before = largest_use();
  const std::string png = png_of({kGrey, 8}, {1, 2}, {{5, 6}});
  CHECK_THAT(file.error(with_text(png, 10, std::size_t{1} << 30)), Contains("the file ends early"));
  CHECK(largest_use() - before < 256 << 10);
}

TEST_CASE("a PNG without a size is an error", "[data][image_file]") {
  const File file;
  const std::string png = png_of({kGrey, 8}, {1, 2}, {{5, 6}});
  const auto size_error = [&](const std::string& bytes) {
    write_bytes(file.path(), bytes);
    return error_of([&] { (void)ddp::read_image_size(file.path()); });
  };
  for (const std::size_t size : {8, 20, 23}) {
    CHECK_THAT(size_error(png.substr(0, size)), Contains("the file ends early"));
  }
  std::string other = png;
  other[12] = 'X';  // of "IHDR"
  CHECK_THAT(size_error(other), Contains("does not begin with its header"));
  std::string empty = png;
  empty[23] = 0;  // the height
  CHECK_THAT(size_error(empty), Contains("says that it has 0 x 2 pixels"));
}

TEST_CASE("a JPEG may say anything about its spectrum where there is only one scan",
          "[data][image_file]") {
  const File file;
  const std::string bytes = jpeg_of(gradient({8, 8}, 3));
  std::string odd = bytes;
  const std::size_t scan = odd.find("\xff\xda");  // its parameters end 12 bytes later
  REQUIRE(scan != std::string::npos);
  odd[scan + 12] = 0;
  CHECK(file.decoded(odd, 3).pixels == file.decoded(bytes, 3).pixels);
}

TEST_CASE("of a huge file that is no image only the beginning is read", "[data][image_file]") {
  const File file;
  write_bytes(file.path(), "<html>");
  std::filesystem::resize_file(file.path(), std::uintmax_t{1} << 40);  // without blocks on disk
  CHECK_THAT(error_of([&] { (void)ddp::read_image_size(file.path()); }),
             Contains("begins with 3c 68 74 6d and is neither JPEG nor PNG"));
}

TEST_CASE("an image that is cut off anywhere is an error", "[data][fuzz]") {
  for (const auto& [bytes, is_png] : small_images()) {
    REQUIRE(decoder_error(bytes, is_png).empty());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CAPTURE(size, bytes.size());
      REQUIRE_FALSE(decoder_error(bytes.substr(0, size), is_png).empty());
    }
  }
}

TEST_CASE("damaged images give an image or an error, nothing else", "[data][fuzz]") {
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  int damaged = 0;
  for (const auto& [good, is_png] : small_images()) {
    for (int i = 0; i < 2000; ++i) {
      std::string bytes = good;
      for (std::size_t k = 0; k < 1 + below(3); ++k) {
        bytes[below(bytes.size())] = static_cast<char>(random());
      }
      damaged += decoder_error(bytes, is_png).empty() ? 0 : 1;
    }
  }
  CHECK(damaged > 4000);  // a JPEG's coefficients have no checksum
}

TEST_CASE("an image file's error says what is wrong", "[data][image_file]") {
  const File file;
  CHECK_THAT(error_of([&] { (void)read_image(file.path(), 3); }), Contains("No such file"));
  CHECK_THAT(error_of([&] { (void)read_image(file.path().parent_path(), 3); }),
             Contains("is not a regular file"));
  const ddp::test::TemporaryDirectory directory;
  REQUIRE(mkfifo((directory / "pipe").c_str(), 0600) == 0);  // whose writer never comes
  CHECK_THAT(error_of([&] { (void)read_image(directory / "pipe", 3); }),
             Contains("is not a regular file"));
  CHECK_THAT(file.error(""), Contains("is empty"));
  CHECK_THAT(file.error("<html>"), Contains("begins with 3c 68 74 6d and is neither JPEG nor PNG"));
  const std::string jpeg = jpeg_of(gradient({16, 16}, 3));
  CHECK_THAT(file.error(jpeg.substr(0, jpeg.size() - 2)), Contains("Premature end of JPEG file"));
  CHECK_THAT(file.error(with_jpeg_size(jpeg, '\xff', '\x00')),
             Contains("says that it has 65280 x 65280 pixels, more than 2^28 altogether"));
  CHECK_THAT(file.error(with_jpeg_size(jpeg, '\x01', '\x00')), Contains("remature end"));
  CHECK_THAT(file.error(jpeg_of(gradient({16, 16}, 4))), Contains("is in CMYK"));
  std::string png = png_of({kGrey, 8}, {1, 2}, {{5, 6}});
  png[png.size() - 16] = static_cast<char>(png[png.size() - 16] ^ 1);  // IDAT's checksum
  CHECK_THAT(file.error(png), Contains("IDAT: CRC error"));
  CHECK_THAT(file.error(png.substr(0, 20)), Contains("the file ends early"));
  CHECK(error_of([&] { (void)read_image(file.path(), 4); }) ==
        "[image_file] images of 4 channels are not supported, only of 1 or 3");
}

TEST_CASE("a PNG that cannot be written whole leaves no part of a file", "[data][image_file]") {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink("target.png", directory / "link.png");
  ddp::test::check_in_child([&] {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{.rlim_cur = 60, .rlim_max = 60};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    bool is_good = true;
    for (const std::string name : {"a.png", "link.png"}) {
      const std::string error = error_of([&] {
        write_png(directory / name, gradient({20, 20}, 3));
      });
      is_good = is_good && error.ends_with(name + ": cannot be written: File too large");
    }
    for (const char* name : {"a.png", "target.png"}) {
      is_good = is_good && !std::filesystem::exists(directory / name);
    }
    return is_good ? ddp::test::Verdict::kGood : ddp::test::Verdict::kBad;
  });
}

TEST_CASE("a PNG that cannot be opened for writing stays as it is", "[data][image_file]") {
  const TemporaryDirectory directory;
  write_png(directory / "a.png", gradient({20, 20}, 3));
  ddp::test::check_in_child([&] {
    const rlimit limit{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const std::string error = error_of([&] {
      write_png(directory / "a.png", gradient({2, 2}, 1));
    });
    return error.ends_with("a.png: cannot be written: Too many open files")
               ? ddp::test::Verdict::kGood
               : ddp::test::Verdict::kBad;
  });
  CHECK(ddp::read_image(directory / "a.png", 3).size.height == 20);
}

TEST_CASE("pixels that cannot be written as PNG are refused", "[data][image_file]") {
  const TemporaryDirectory directory;
  CHECK_THAT(error_of([&] {
               write_png(directory / "no/such/a.png", gradient({2, 2}, 1));
             }),
             Contains("no/such/a.png: cannot be written: No such file or directory"));
  Image image = gradient({2, 2}, 3);
  image.pixels.pop_back();
  CHECK(error_of([&] { write_png(directory / "a.png", image); }) ==
        "[image_file] 11 bytes of pixels for 2 x 2 of 3 channels");
  image.channels = 2;
  CHECK_THROWS_AS(write_png(directory / "a.png", image), std::invalid_argument);
  CHECK(error_of([&] {
          write_png(directory / "a.png", gradient({0, 0}, 1));
        }) == "[image_file] 0 bytes of pixels for 0 x 0 of 1 channels");
  for (const std::int64_t huge : {std::int64_t{1} << 32, std::int64_t{1} << 62}) {
    image = {.size = {huge, huge}, .channels = 1, .pixels = {}};
    CHECK_THROWS_AS(write_png(directory / "a.png", image), std::invalid_argument);
  }
  const std::string file = (directory / "a.png").string();
  CHECK_THAT(error_of([&] {
               write_png(file, gradient({1, 1'000'001}, 1));
             }),
             Catch::StartsWith("[image_file] " + file + ": "));  // libpng's limit is 1000000
}
