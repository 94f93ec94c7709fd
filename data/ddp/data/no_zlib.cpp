// SPDX-License-Identifier: MIT
//
// Stands in for input_file.cpp in a build without zlib: reads what is not gzipped.
#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "ddp/base/error.h"
#include "ddp/data/input_file.h"

namespace ddp {
namespace {

class PlainFile : public InputFile {
 public:
  explicit PlainFile(const std::filesystem::path& path)
      : path_(path), file_(std::fopen(path.c_str(), "rbe")) {
    if (!file_) fail("cannot be opened: " + error_text(errno));
  }

  std::size_t read(std::span<std::uint8_t> bytes) override {
    const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), file_.get());
    if (std::ferror(file_.get()) != 0) fail("cannot be read: " + error_text(errno));
    return got;
  }

  [[nodiscard]] std::uint64_t max_size() const override {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(path_, error);
    if (error) fail("its size cannot be read: " + error.message());
    return size;
  }

  [[nodiscard]] bool is_gzipped() {
    std::array<std::uint8_t, 2> magic{};
    const std::size_t got = read(magic);
    std::rewind(file_.get());
    return got == 2 && magic[0] == 0x1f && magic[1] == 0x8b;  // RFC 1952, 2.3.1
  }

 private:
  [[noreturn]] void fail(const std::string& complaint) const {
    throw FileError("[input_file] " + path_.string() + ": " + complaint);
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace

bool gzip_is_compiled_in() { return false; }

std::unique_ptr<InputFile> open_input_file(const std::filesystem::path& path) {
  auto file = std::make_unique<PlainFile>(path);
  if (file->is_gzipped()) {
    throw EnvironmentError("[input_file] " + path.string() +
                           ": this build reads no gzipped files: gunzip it, or install zlib "
                           "(apt-get install zlib1g-dev) and build with -DDDP_ZLIB=ON");
  }
  return file;
}

}  // namespace ddp
