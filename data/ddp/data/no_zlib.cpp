// SPDX-License-Identifier: MIT
//
// Stands in for input_file.cpp in a build without zlib: reads what is not gzipped.
#include <array>
#include <stdexcept>
#include <string>

#include "ddp/base/error.h"
#include "ddp/base/system/regular_file.h"
#include "ddp/data/input_file.h"

namespace ddp {
namespace {

class PlainFile : public InputFile {
 public:
  explicit PlainFile(const std::filesystem::path& path) : path_(path), file_(open(path)) {}

  std::size_t read(std::span<std::uint8_t> bytes) override try {
    return file_.read(bytes.data(), bytes.size());
  } catch (const std::runtime_error& error) {
    fail(path_, error.what());
  }

  [[nodiscard]] std::uint64_t max_size() const override { return file_.size(); }

 private:
  [[noreturn]] static void fail(const std::filesystem::path& path, const std::string& complaint) {
    throw FileError("[input_file] " + path.string() + ": " + complaint);
  }

  [[nodiscard]] static RegularFile open(const std::filesystem::path& path) try {
    return RegularFile(path);
  } catch (const std::runtime_error& error) {
    fail(path, error.what());
  }

  std::filesystem::path path_;
  RegularFile file_;
};

bool is_gzipped(const std::filesystem::path& path) {
  std::array<std::uint8_t, 2> magic{};
  const std::size_t got = PlainFile(path).read(magic);
  return got == 2 && magic[0] == 0x1f && magic[1] == 0x8b;  // RFC 1952, 2.3.1
}

}  // namespace

bool gzip_is_compiled_in() { return false; }

std::unique_ptr<InputFile> open_input_file(const std::filesystem::path& path) {
  if (is_gzipped(path)) {
    throw EnvironmentError("[input_file] " + path.string() +
                           ": this build reads no gzipped files: gunzip it, or install zlib "
                           "(apt-get install zlib1g-dev) and build with -DDDP_ZLIB=ON");
  }
  return std::make_unique<PlainFile>(path);
}

}  // namespace ddp
