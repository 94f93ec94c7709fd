// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>

namespace ddp {

// A file that is read from front to back, and unpacked if it is gzipped.
class InputFile {
 public:
  virtual ~InputFile() = default;

  // Returns the number of bytes read, which is less than asked for only at the end of the file.
  // Throws FileError if the file cannot be read, is damaged, or its gzip stream ends early.
  virtual std::size_t read(std::span<std::uint8_t> bytes) = 0;

  // An upper bound on the number of bytes in the file, unpacked.
  [[nodiscard]] virtual std::uint64_t max_size() const = 0;
};

// `path`, or `path`.gz if only that exists.
[[nodiscard]] inline std::filesystem::path plain_or_gzipped(const std::filesystem::path& path) {
  const std::filesystem::path gzipped = path.string() + ".gz";
  std::error_code ignored;
  return exists(path, ignored) || !exists(gzipped, ignored) ? path : gzipped;
}

// False in a build without zlib.
[[nodiscard]] bool gzip_is_compiled_in();

// Throws FileError if the file cannot be opened, and EnvironmentError if it is gzipped in a build
// without zlib.
[[nodiscard]] std::unique_ptr<InputFile> open_input_file(const std::filesystem::path& path);

}  // namespace ddp
