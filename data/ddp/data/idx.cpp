// SPDX-License-Identifier: MIT
#include "ddp/data/idx.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>

#include "ddp/base/error.h"
#include "ddp/data/input_file.h"

namespace ddp {
namespace {

constexpr std::uint32_t kUnsignedBytes = 0x0800;

// Adds the path to every error.
class IdxFile {
 public:
  explicit IdxFile(const std::filesystem::path& path) : path_(path), file_(open_input_file(path)) {}

  [[noreturn]] void fail(const std::string& complaint) const {
    throw FileError("[idx] " + path_.string() + ": " + complaint);
  }

  std::size_t read(std::span<std::uint8_t> bytes) { return file_->read(bytes); }

  std::uint32_t read_uint32() {
    std::array<std::uint8_t, 4> bytes{};
    if (read(bytes) < bytes.size()) fail("is truncated: it ends inside the header");
    return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
           static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
  }

  // An upper bound on the size of an array in this file.
  [[nodiscard]] std::uint64_t max_size() const { return file_->max_size(); }

 private:
  std::filesystem::path path_;
  std::unique_ptr<InputFile> file_;
};

void check_magic(IdxFile& file, std::size_t dimensions) {
  const std::uint32_t magic = file.read_uint32();
  const std::uint32_t expected = kUnsignedBytes | static_cast<std::uint32_t>(dimensions);
  if (magic == expected) return;
  file.fail(fmt::format("starts with {:#010x} instead of {:#010x} (IDX, unsigned bytes, {}-D)",
                        magic, expected, dimensions));
}

std::vector<std::int64_t> read_shape(IdxFile& file, std::size_t dimensions) {
  std::vector<std::int64_t> shape(dimensions);
  for (std::int64_t& size : shape) size = file.read_uint32();
  return shape;
}

std::size_t checked_size(const IdxFile& file, const std::vector<std::int64_t>& shape) {
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
  IdxFile file(path);
  check_magic(file, dimensions);
  IdxArray array{.shape = read_shape(file, dimensions), .values = {}};
  const std::size_t size = checked_size(file, array.shape);
  // In pieces, since a damaged header may promise more than there is.
  for (std::size_t got = 0; got < size;) {
    constexpr std::size_t kPiece = std::size_t{16} << 20;
    array.values.resize(std::min(size, got + kPiece));
    got += file.read(std::span(array.values).subspan(got));
    if (got < array.values.size()) {
      file.fail(fmt::format("is truncated: {} of {} values are there", got, size));
    }
  }
  std::array<std::uint8_t, 1> beyond{};
  if (file.read(beyond) > 0) {
    file.fail(fmt::format("goes on after its {} values", array.values.size()));
  }
  return array;
}

}  // namespace ddp
