// SPDX-License-Identifier: MIT
#include "ddp/data/idx.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <string>
#include <system_error>

#include "ddp/base/error.h"

namespace ddp {
namespace {

constexpr std::uint32_t kUnsignedBytes = 0x0800;
constexpr std::uint64_t kMaxDeflateRatio = 1032;  // no deflate stream expands further

// A file read through zlib, which passes on what is not gzipped as it is.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path)
      : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) fail("cannot be opened: " + error_text(errno));
    gzbuffer(file_.get(), 1U << 17);
  }

  [[noreturn]] void fail(const std::string& complaint) const {
    throw FileError("[idx] " + path_.string() + ": " + complaint);
  }

  // The number of bytes read, less than asked for only at the end of the file.
  std::size_t read(std::span<std::uint8_t> bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const std::size_t wanted = std::min<std::size_t>(bytes.size() - done, 1U << 30);
      const int got = gzread(file_.get(), bytes.data() + done, static_cast<unsigned>(wanted));
      check_stream();
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  std::uint32_t read_uint32() {
    std::array<std::uint8_t, 4> bytes{};
    if (read(bytes) < bytes.size()) fail("is truncated: it ends inside the header");
    return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
           static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
  }

  // No array in this file can be larger.
  [[nodiscard]] std::uint64_t max_size() const {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(path_, error);
    if (error) fail("has no size: " + error.message());
    return gzdirect(file_.get()) != 0 ? size : size * kMaxDeflateRatio;
  }

 private:
  void check_stream() const {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (code == Z_OK || code == Z_STREAM_END) return;
    if (code == Z_BUF_ERROR) fail("is truncated: the gzip stream ends early");
    fail(code == Z_ERRNO ? "cannot be read: " + error_text(errno)
                         : std::string("is damaged: ") + text);
  }

  struct Close {
    void operator()(gzFile file) const { gzclose_r(file); }
  };

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

void check_magic(InputFile& file, std::size_t dimensions) {
  const std::uint32_t magic = file.read_uint32();
  const std::uint32_t expected = kUnsignedBytes | static_cast<std::uint32_t>(dimensions);
  if (magic == expected) return;
  file.fail(fmt::format("starts with {:#010x} instead of {:#010x} (IDX, unsigned bytes, {}-D)",
                        magic, expected, dimensions));
}

std::vector<std::int64_t> read_shape(InputFile& file, std::size_t dimensions) {
  std::vector<std::int64_t> shape(dimensions);
  for (std::int64_t& size : shape) size = file.read_uint32();
  return shape;
}

std::size_t checked_size(const InputFile& file, const std::vector<std::int64_t>& shape) {
  const std::uint64_t limit = file.max_size();
  std::uint64_t size = 1;
  for (const std::int64_t dimension : shape) {
    const auto factor = static_cast<std::uint64_t>(dimension);
    if (factor != 0 && size > limit / factor) {
      file.fail(fmt::format(
          "is truncated or damaged: its header promises {} bytes, more than it can hold",
          fmt::join(shape, " x ")));
    }
    size *= factor;
  }
  return size;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, std::size_t dimensions) {
  InputFile file(path);
  check_magic(file, dimensions);
  IdxArray array{.shape = read_shape(file, dimensions), .values = {}};
  array.values.resize(checked_size(file, array.shape));
  const std::size_t got = file.read(array.values);
  if (got < array.values.size()) {
    file.fail(fmt::format("is truncated: {} of {} values are there", got, array.values.size()));
  }
  std::array<std::uint8_t, 1> beyond{};
  if (file.read(beyond) > 0) {
    file.fail(fmt::format("goes on after its {} values", array.values.size()));
  }
  return array;
}

}  // namespace ddp
