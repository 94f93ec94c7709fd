// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace ddp {

// A file that is read from front to back; what is gzipped is unpacked on the way.
class InputFile {
 public:
  virtual ~InputFile() = default;

  // The number of bytes read, less than asked for only at the end of the file. Throws FileError if
  // it cannot be read, is damaged, or its gzip stream ends early.
  virtual std::size_t read(std::span<std::uint8_t> bytes) = 0;

  // It holds no more bytes than that, unpacked.
  [[nodiscard]] virtual std::uint64_t max_size() const = 0;
};

// False in a build without zlib.
[[nodiscard]] bool gzip_is_compiled_in();

// Throws FileError if the file cannot be opened, and EnvironmentError if it is gzipped in a build
// without zlib.
[[nodiscard]] std::unique_ptr<InputFile> open_input_file(const std::filesystem::path& path);

}  // namespace ddp
