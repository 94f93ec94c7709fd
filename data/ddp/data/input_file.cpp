// SPDX-License-Identifier: MIT
#include "ddp/data/input_file.h"

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/system/regular_file.h"
#include "ddp/data/gzip_file.h"

namespace ddp {
namespace {

class PlainFile final : public InputFile {
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

std::unique_ptr<InputFile> open_input_file(const std::filesystem::path& path) {
  auto file = std::make_unique<PlainFile>(path);
  if (!is_gzipped(path)) return file;
  return unpack_gzip(path, std::move(file));
}

}  // namespace ddp
