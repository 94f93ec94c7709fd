// SPDX-License-Identifier: MIT
//
// zlib's own reader of files, gzread, takes what follows a member and is not another one for the
// end of the file, so a damaged header would cost all that is behind it.
#include "ddp/data/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <utility>

#include "ddp/base/error.h"

namespace ddp {
namespace {

constexpr std::uint64_t kMaxDeflateRatio = 1032;  // no deflate stream expands further
constexpr int kGzipOnly = 16;                     // added to the bits of the window

class GzipFile final : public InputFile {
 public:
  GzipFile(const std::filesystem::path& path, std::unique_ptr<InputFile> packed)
      : path_(path), packed_(std::move(packed)) {
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipFile() override { inflateEnd(&stream_); }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  std::size_t read(std::span<std::uint8_t> bytes) override {
    std::size_t done = 0;
    while (done < bytes.size() && (is_in_member_ || begin_member())) {
      done += unpack(bytes.subspan(done));
    }
    return done;
  }

  [[nodiscard]] std::uint64_t max_size() const override {
    return packed_->max_size() * kMaxDeflateRatio;
  }

 private:
  // False at the end of the file, which may be filled up with zeros.
  bool begin_member() {
    while (has_input() && *stream_.next_in == 0) {
      ++stream_.next_in;
      --stream_.avail_in;
    }
    if (!has_input()) return false;
    is_in_member_ = inflateReset(&stream_) == Z_OK;
    return is_in_member_;
  }

  std::size_t unpack(std::span<std::uint8_t> bytes) {
    if (!has_input()) fail("is truncated: the gzip stream ends early");
    const auto room = static_cast<unsigned>(std::min<std::size_t>(bytes.size(), 1U << 30));
    stream_.next_out = bytes.data();
    stream_.avail_out = room;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code != Z_OK && code != Z_STREAM_END) {
      fail(std::string("is damaged: ") + (stream_.msg != nullptr ? stream_.msg : zError(code)));
    }
    is_in_member_ = code == Z_OK;
    return room - stream_.avail_out;
  }

  bool has_input() {
    if (stream_.avail_in > 0) return true;
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<unsigned>(packed_->read(input_));
    return stream_.avail_in > 0;
  }

  [[noreturn]] void fail(const std::string& complaint) const {
    throw FileError("[input_file] " + path_.string() + ": " + complaint);
  }

  std::filesystem::path path_;
  std::unique_ptr<InputFile> packed_;
  z_stream stream_{};
  bool is_in_member_ = false;
  std::array<std::uint8_t, std::size_t{1} << 17> input_;
};

}  // namespace

bool gzip_is_compiled_in() { return true; }

std::unique_ptr<InputFile> unpack_gzip(const std::filesystem::path& path,
                                       std::unique_ptr<InputFile> packed) {
  return std::make_unique<GzipFile>(path, std::move(packed));
}

}  // namespace ddp
