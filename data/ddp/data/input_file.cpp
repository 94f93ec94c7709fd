// SPDX-License-Identifier: MIT
#include "ddp/data/input_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ddp/base/error.h"
#include "ddp/base/system/regular_file.h"

namespace ddp {
namespace {

constexpr std::uint64_t kMaxDeflateRatio = 1032;  // no deflate stream expands further

// zlib also reads files that are not gzipped, unchanged.
class ZlibFile : public InputFile {
 public:
  explicit ZlibFile(const std::filesystem::path& path) : path_(path), file_(open(path)) {
    gzbuffer(file_.get(), 1U << 17);
  }

  std::size_t read(std::span<std::uint8_t> bytes) override {
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

  [[nodiscard]] std::uint64_t max_size() const override {
    return gzdirect(file_.get()) != 0 ? size_ : size_ * kMaxDeflateRatio;
  }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose_r(file); }
  };
  using Handle = std::unique_ptr<gzFile_s, Close>;

  [[nodiscard]] Handle open(const std::filesystem::path& path) try {
    RegularFile file(path);
    size_ = file.size();
    Handle handle(gzdopen(file.descriptor(), "rb"));
    if (!handle) throw std::bad_alloc();
    file.release();
    return handle;
  } catch (const std::runtime_error& error) {
    fail(error.what());
  }

  [[noreturn]] void fail(const std::string& complaint) const {
    throw FileError("[input_file] " + path_.string() + ": " + complaint);
  }

  void check_stream() const {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (code == Z_OK || code == Z_STREAM_END) return;
    if (code == Z_BUF_ERROR) fail("is truncated: the gzip stream ends early");
    std::string_view reason = text;  // "<fd:3>: incorrect data check"
    if (reason.starts_with("<fd:"))
      reason.remove_prefix(std::min(reason.find(' ') + 1, reason.size()));
    fail(code == Z_ERRNO ? "cannot be read: " + error_text(errno)
                         : "is damaged: " + std::string(reason));
  }

  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  Handle file_;  // last: opening it sets the size
};

}  // namespace

bool gzip_is_compiled_in() { return true; }

std::unique_ptr<InputFile> open_input_file(const std::filesystem::path& path) {
  return std::make_unique<ZlibFile>(path);
}

}  // namespace ddp
