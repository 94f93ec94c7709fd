// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/socket.h"

namespace ddp::launcher {

// A program or library as it lies on the disk, of this machine's kind. It may change while it is
// read, by a compiler for instance; what is damaged or missing is answered by nothing.
class ElfImage {
 public:
  explicit ElfImage(const std::string& path);

  // The address that the linker gave to what lies at `file_offset`, which addr2line takes.
  [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t file_offset) const;

  // The function around an address of the linker's, demangled: from the symbol table or, in a
  // stripped file, among what it exports. Empty if none is known.
  [[nodiscard]] std::string function_at(std::uint64_t address) const;

 private:
  template <typename T>
  [[nodiscard]] std::vector<T> read(std::uint64_t offset, std::uint64_t count) const;

  FileDescriptor file_;
  std::uint64_t size_ = 0;  // 0: not such a file
};

}  // namespace ddp::launcher
