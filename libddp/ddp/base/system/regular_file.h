// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "ddp/base/file_descriptor.h"

namespace ddp {

// A regular file that is open for reading. Nothing else is opened: a named pipe, for example, would
// block its reader until a writer comes. Throws FileError if the file is not regular and
// SystemError if the system fails, with the reason alone: the caller adds the file's name.
class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path);

  // When it was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // Reads on from where the last call ended. Returns the number of bytes read, which is less than
  // asked for only at the end of the file.
  [[nodiscard]] std::size_t read(void* destination, std::size_t size_bytes);

 private:
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

// The first bytes of a file, at most `longest`; empty if it cannot be read. For files that another
// process may have made anything of.
[[nodiscard]] std::string read_beginning(const std::filesystem::path& path, std::size_t longest);

}  // namespace ddp
